import csv
import tomllib
from pathlib import Path

import pytest

from experiments import scenario as module
from experiments.events import EVENT_KINDS
from experiments.scenario import Scenario, ScenarioError
from experiments.scenario_files import scenario_names
from market.parameters import parameter_rows
from market.tables import TABLE_NAMES
from tests.worlds import event_cells


def refusal(call, *arguments):
    with pytest.raises(ScenarioError) as caught:
        call(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def scenario_file(tmp_path: Path):
    def write(text: str, name: str = "mine.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_the_baseline_is_every_parameter_at_the_default_of_its_table_row():
    values = Scenario.load("baseline-2025").values()
    assert set(parameter_rows()) == {key for key in values if "." in key}
    assert values["weeks"] == 156


def test_every_built_in_scenario_has_valid_tables():
    for name in scenario_names():
        Scenario.load(name).check()


def test_a_file_beats_what_it_extends_and_a_text_beats_the_file(scenario_file):
    path = scenario_file('extends = "baseline-2025"\nweeks = 26\n[developer_cloud]\ncap_gpus = 300\n')
    scenario = Scenario.load(path)
    assert (scenario.name, scenario.weeks, scenario.developer_cloud.cap_gpus) == ("mine", 26, 300.0)
    assert scenario.with_text(["developer_cloud.cap_gpus=200"]).developer_cloud.cap_gpus == 200.0


def test_a_file_may_extend_a_file_beside_it(scenario_file):
    scenario_file("[pricing]\nanchor_weight = 0\n", "base.toml")
    assert Scenario.load(scenario_file('extends = "base.toml"\n')).pricing.anchor_weight == 0.0


def test_files_that_extend_each_other_are_refused(scenario_file):
    scenario_file('extends = "second.toml"\n', "first.toml")
    message = refusal(Scenario.load, scenario_file('extends = "first.toml"\n', "second.toml"))
    assert "circle: second -> first -> second" in message


def test_changes_can_be_written_after_a_name():
    scenario = Scenario.load("baseline-2025+developer_cloud.cap_gpus=3e+2+pricing.anchor_weight=0")
    assert (scenario.developer_cloud.cap_gpus, scenario.pricing.anchor_weight) == (300.0, 0.0)


def test_an_unknown_scenario_names_the_nearest():
    assert "nearest: baseline-2025" in refusal(Scenario.load, "baseline-2052")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("developer_cloud.cap_gpu=3", "unknown key developer_cloud.cap_gpu; nearest: developer_cloud.cap_gpus"),
        ("developer_clout.cap_gpus=3", "nearest: developer_cloud.cap_gpus"),
        ("developer_cloud=3", "developer_cloud is a section"),
        ("developer_cloud.cap_gpus=-5", "developer_cloud.cap_gpus = -5.0; allowed: a number from 0 to 10000000 GPUs"),
        ("developer_cloud.cap_gpus=nan", "developer_cloud.cap_gpus = nan; allowed: a number"),
        ("developer_cloud.cap_gpus=inf", "developer_cloud.cap_gpus = inf; allowed: a number"),
        ("developer_cloud.cap_gpus=many", "developer_cloud.cap_gpus = 'many'; allowed: a number"),
        ("developer_cloud.price_rule=cheap", "'cheap'; allowed: fixed, partners-median"),
        ("choice.outside_option=perhaps", "allowed: true or false"),
        ("weeks=1.5", "weeks = '1.5'; allowed: a whole number from 1 to 5200 weeks"),
        ("weeks", "'weeks' is not of the form section.key=value"),
        ("developer_cloud.cap_gpus=20000", "allowed: 0 to developer_cloud.firm_gpus = 10000 GPUs"),
        ("data.fleet=x.csv", "unknown table 'fleet'; nearest: fleets"),
    ],
)
def test_a_bad_text_is_refused_in_one_line(text, told):
    message = refusal(Scenario.load().with_text, [text])
    assert message.startswith("--set: ")
    assert told in message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[developer_cloud]\ncap_gpu = 3\n", "nearest: developer_cloud.cap_gpus"),
        ('[developer_cloud]\ncap_gpus = "300"\n', "developer_cloud.cap_gpus = '300'; allowed: a number"),
        ("[developer_cloud]\ncap_gpus = nan\n", "developer_cloud.cap_gpus = nan"),
        ("[choice]\noutside_option = 1\n", "allowed: true or false"),
        ("week = 3\n", "unknown key week; nearest: weeks"),
        ("weeks = \n", "not a TOML file"),
        ("extends = 3\n", "extends = 3"),
        ("[data]\nfleets = 3\n", "allowed: a CSV file"),
        ("[developer_cloud]\nfirm_gpus = 10\n", "more than are leased back"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_that_names_it(scenario_file, text, told):
    path = scenario_file(text)
    message = refusal(Scenario.load, path)
    assert message.startswith(str(path))
    assert told in message


def test_a_missing_file_is_refused(tmp_path):
    assert "No such file" in refusal(Scenario.load, tmp_path / "absent.toml")


def test_an_unknown_sku_is_refused_with_the_nearest():
    message = refusal(Scenario.load().set("developer_cloud.sku", "MI300").check)
    assert "developer_cloud.sku = 'MI300'" in message
    assert "nearest: MI300X" in message


def test_a_scenario_cannot_be_changed_in_place():
    with pytest.raises(ValueError, match="frozen"):
        Scenario.load().weeks = 3  # type: ignore[misc]


def test_the_canonical_form_reads_back_to_the_same_scenario(scenario_file):
    scenario = Scenario.load().with_({"data.hardware.MI355X.capex_usd": 1000, "weeks": 3, "description": 'a "b" \\ c'})
    again = Scenario.load(scenario_file(scenario.canonical()))
    assert again == scenario
    assert again.digest() == scenario.digest()


def test_the_digest_moves_with_any_value_and_not_with_labels():
    base = Scenario.load()
    assert base.with_({"name": "x", "description": "y", "source": "z"}).digest() == base.digest()
    assert base.set("pricing.anchor_weight", 0.5).digest() != base.digest()


def test_a_whole_number_and_the_same_decimal_number_are_one_value():
    base = Scenario.load()
    assert base.set("developer_cloud.cap_gpus", 300).digest() == base.set("developer_cloud.cap_gpus", 300.0).digest()


def test_tables_can_be_replaced_by_files_beside_the_scenario(scenario_file):
    source = Path(module.__file__).parent.parent / "market" / "data" / "fleets.csv"
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    scenario_file("".join(lines[:3]), "my_fleets.csv")
    scenario = Scenario.load(scenario_file('[data]\nfleets = "my_fleets.csv"\n'))
    assert len(scenario.tables().fleets) == 2


def test_a_cell_can_be_changed_by_its_address():
    for scenario in (
        Scenario.load().set("data.hardware.MI355X.capex_usd", 1234.0),
        Scenario.load().with_text(["data.hardware.MI355X.capex_usd=1234"]),
    ):
        tables = scenario.tables()
        assert tables.skus[tables.sku_index["MI355X"]].capex_usd == 1234.0


def test_a_cell_that_does_not_exist_is_refused_with_the_nearest():
    assert "MI355X" in refusal(Scenario.load().set("data.hardware.MI355.capex_usd", 1.0).tables)


def test_differences_name_the_keys_that_differ():
    base = Scenario.load()
    assert base.differences(base.set("weeks", 3)) == {"weeks": (156, 3)}


def test_the_schema_carries_units():
    schema = Scenario.model_json_schema()
    desk = schema["$defs"]["DeveloperCloudParameters"]["properties"]
    assert desk["price_usd_per_gpu_hour"]["unit"] == "USD/GPU-h"


def test_the_stored_form_is_plain_toml_with_sorted_keys():
    stored = tomllib.loads(Scenario.load().canonical())
    assert list(stored["pricing"]) == sorted(stored["pricing"])


@pytest.mark.parametrize(
    ("key", "wrong", "right"),
    [
        ("pricing.neocloud_rule", "targt", "target"),
        ("capacity.rule", "lifetime", "lifetime-margin"),
        ("lepton.mode", "presed", "pressed"),
    ],
)
def test_an_unknown_rule_is_refused_with_the_nearest_name(key: str, wrong: str, right: str) -> None:
    with pytest.raises(ScenarioError, match=f"{key} = '{wrong}'; allowed: .*nearest: {right}"):
        Scenario.load().set(key, wrong)


# ------------------------------------------------------------------------------------------------ events

RECESSION = '[events.recession]\nkind = "demand"\nweek = 26\nsize = -0.3\n'


def test_an_event_stands_in_values_canonical_form_differences_and_digest(scenario_file):
    base, scenario = Scenario.load(), Scenario.load(scenario_file('extends = "baseline-2025"\n' + RECESSION))
    cells = {"kind": "demand", "week": 26, "size": -0.3, "segment": "", "weeks": 0}
    flat = {f"events.recession.{field}": cell for field, cell in cells.items()}
    assert {key: cell for key, cell in scenario.values().items() if key.startswith("events.")} == flat
    assert base.differences(scenario) == {key: (None, cell) for key, cell in flat.items()}
    assert scenario.changes(base) == flat
    assert scenario.digest() != base.digest()
    again = Scenario.load(scenario_file(scenario.canonical(), "again.toml"))
    assert (again.events, again.digest()) == (scenario.events, scenario.digest())


def test_a_text_changes_one_field_of_an_event_and_several_make_one(scenario_file):
    path = scenario_file(RECESSION)
    changed = Scenario.load(f"{path}+events.recession.size=-0.2+events.recession.weeks=8").events["recession"]
    assert (changed.size, changed.weeks, changed.week) == (-0.2, 8, 26)
    made = ["events.late-chip.kind=chip", "events.late-chip.week=9", "events.late-chip.sku=MI400"]
    event = Scenario.load().with_text([*made, "events.late-chip.slip_weeks=-4"]).events["late-chip"]
    assert (event.kind, event.sku, event.slip_weeks) == ("chip", "MI400", -4)


def test_a_file_beats_the_events_of_what_it_extends_field_by_field(scenario_file):
    scenario_file(RECESSION, "base.toml")
    scenario = Scenario.load(scenario_file('extends = "base.toml"\n[events.recession]\nsize = -0.5\n'))
    assert (scenario.events["recession"].size, scenario.events["recession"].week) == (-0.5, 26)


def test_the_order_of_events_in_a_file_is_nothing(scenario_file):
    other = '[events.cut]\nkind = "list-price"\nweek = 1\nseller = "AWS"\nfactor = 0.5\n'
    one, two = (scenario_file(text, f"{n}.toml") for n, text in enumerate((RECESSION + other, other + RECESSION)))
    assert Scenario.load(one).digest() == Scenario.load(two).digest()


def test_the_value_of_a_policy_has_the_type_of_its_key():
    policy = ["events.p.kind=policy", "events.p.week=3", "events.p.key=developer_cloud.cap_gpus"]
    one, two = (Scenario.load().with_text([*policy, f"events.p.value={value}"]) for value in ("300", "3e2"))
    assert one.digest() == two.digest()
    assert isinstance(one.events["p"].value, float)


def test_the_schema_has_every_kind_of_event():
    schema = Scenario.model_json_schema()
    mapping = schema["properties"]["events"]["additionalProperties"]["discriminator"]["mapping"]
    assert set(mapping) == set(EVENT_KINDS) == {"list-price", "chip", "demand", "tenant-leaves", "policy"}
    assert schema["$defs"]["ChipSlip"]["properties"]["slip_weeks"]["unit"] == "weeks"


def _event(**fields):
    return [f"events.e.{field}={value}" for field, value in {"week": 3, **fields}.items()]


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (_event(size=1), "events.e.kind is missing; allowed: list-price, chip, demand"),
        (_event(kind="demnd", size=1), "events.e.kind = 'demnd'; allowed: list-price"),
        (_event(kind="demnd", size=1), "nearest: demand"),
        (_event(kind="demand", siz=1), "unknown key events.e.siz of kind demand; nearest: size"),
        (_event(kind="demand"), "events.e.size is missing; allowed: a number from -0.99 to 10"),
        (_event(kind="demand", size="big"), "events.e.size = 'big'; allowed: a number"),
        (_event(kind="demand", size="nan"), "events.e.size = nan; allowed: a number"),
        (_event(kind="demand", size=-1), "events.e.size = -1.0; allowed: a number from -0.99"),
        (_event(kind="demand", size=1, week=0), "events.e.week = 0; allowed: a whole number from 1"),
        (_event(kind="demand", size=1, week=1.5), "events.e.week = '1.5'; allowed: a whole number"),
        (_event(kind="demand", size=1, segment="developers"), "allowed: developer, small_inference"),
        (_event(kind="demand", size=1, segment="developers"), "nearest: developer"),
        (_event(kind="list-price", factor=2), "give seller or provider_class, one of them"),
        (_event(kind="list-price", factor=2, seller="AWS", provider_class="neocloud"), "one of them"),
        (_event(kind="list-price", factor=2, provider_class="neoclouds"), "nearest: neocloud"),
        (_event(kind="policy", key="lepton.take_rat", value=0.2), "nearest: lepton.take_rate"),
        (_event(kind="policy", key="tenants.rows", value=9), "'tenants.rows' is settled at the opening"),
        (
            _event(kind="policy", key="lepton.take_rate", value=10),
            "allowed for lepton.take_rate: a number from 0 to 0.99",
        ),
        (_event(kind="policy", key="lepton.mode", value="presed"), "nearest: pressed"),
        (_event(kind="policy", key="capacity.orders", value=1), "allowed for capacity.orders: true or false"),
        (_event(kind="policy", key="choice.search_sellers", value=2.5), "a whole number from 0 to 1000"),
        (_event(kind="policy", key="developer_cloud.cap_gpus", value=2e4), "developer_cloud.firm_gpus = 10000"),
        (_event(kind="policy", key="demand.growth_rise_week", value=99), "must not decrease"),
        (["events.e=3"], "[events.NAME]"),
        (["events.a.b.kind=demand"], "[events.NAME]"),
    ],
)
def test_a_bad_event_is_refused_in_one_line(texts, told):
    message = refusal(Scenario.load().with_text, texts)
    assert message.startswith("--set: ")
    assert told in message


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (_event(kind="list-price", factor=2, seller="CoreWeve"), "no such seller in this market; nearest: CoreWeave"),
        (_event(kind="list-price", factor=2, seller="AWS", sku="H10"), "no such SKU in hardware; nearest: H100"),
        (_event(kind="chip", slip_weeks=2, sku="MI40"), "nearest: MI400"),
        (_event(kind="tenant-leaves", share=0.5, seller="Lamda"), "nearest: Lambda"),
    ],
)
def test_events_name_sellers_and_chips_that_exist(texts, told):
    assert told in refusal(Scenario.load().with_text(texts).check)


def test_two_policies_in_turn_must_fit_each_other():
    first = {"kind": "policy", "week": 3, "key": "demand.growth_fall_week", "value": 79}
    second = {"kind": "policy", "week": 4, "key": "demand.growth_peak_week", "value": 78}
    ordered = Scenario.load().with_(event_cells({"a": first, "b": second}))
    assert len(ordered.events) == 2
    assert "must not decrease" in refusal(ordered.set, "events.b.week", 2)


# ------------------------------------------------------------------------------------------------ tables of one's own


@pytest.mark.parametrize("name", ["baseline-2025", "baseline-2024"])
def test_exported_tables_come_back_with_the_same_digest(name, tmp_path):
    scenario = Scenario.load(name)
    files = scenario.export_tables(tmp_path / "tables")
    back = Scenario.load().with_({f"data.{table}": str(path) for table, path in files.items()})
    assert back.check().digest() == scenario.tables().digest()


@pytest.mark.parametrize("table", TABLE_NAMES)
def test_any_table_can_be_replaced_and_counts(table, tmp_path):
    base = Scenario.load()
    path = base.export_tables(tmp_path)[table]
    assert base.set(f"data.{table}", str(path)).check().digest() == base.tables().digest()
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows[-1]["note"] += " changed"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert base.set(f"data.{table}", str(path)).check().digest() != base.tables().digest()


def test_changed_cells_are_in_the_export(tmp_path):
    scenario = Scenario.load().set("data.hardware.MI355X.capex_usd", 1234.0)
    files = scenario.export_tables(tmp_path)
    assert Scenario.load().set("data.hardware", str(files["hardware"])).tables().digest() == scenario.tables().digest()


def test_an_export_overwrites_nothing(tmp_path):
    (tmp_path / "fleets.csv").write_text("mine", encoding="utf-8")
    assert "exists and is left as it is" in refusal(Scenario.load().export_tables, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["fleets.csv"]
