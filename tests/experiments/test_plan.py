import pytest

from experiments.design import Design, design_names
from experiments.engine.errors import ScenarioError
from experiments.engine.plan import Arm, make_plan, run_id
from experiments.scenario import Scenario

TABLES = "0" * 64


def test_the_id_of_a_run_moves_with_whatever_decides_its_result():
    base = Scenario.load()
    ids = {
        run_id(base, 1, TABLES),
        run_id(base, 2, TABLES),
        run_id(base.set("weeks", 3), 1, TABLES),
        run_id(base, 1, "1" * 64),
    }
    assert len(ids) == 4


def test_the_id_of_a_run_does_not_move_with_a_name():
    base = Scenario.load()
    assert run_id(base.set("name", "other"), 1, TABLES) == run_id(base, 1, TABLES)


def test_runs_stand_arm_by_arm_and_seed_by_seed(small_plan):
    assert [(spec.arm, spec.seed) for spec in small_plan.rows()] == [
        ("without", 1),
        ("without", 2),
        ("with", 1),
        ("with", 2),
    ]


def test_arms_that_are_the_same_scenario_share_their_runs():
    plan = Design.load().plan(assignments=["developer_cloud.cap_gpus=0", "pricing.anchor_weight=0"], seeds=2)
    rows, runs = plan.rows(), plan.runs()
    assert len(rows) == 10
    assert len(runs) == len({spec.id for spec in rows}) == 4  # at the fixed price and at the partners' median


def test_the_default_experiment_has_three_arms_and_two_without_the_anchor():
    plan = Design.load().plan()
    assert len(plan.rows()) == 5 * 16
    assert plan.shown_arms() == ["none", "same-hours", "offer"]
    names = ["price effect", "price effect, anchor off", "quantity effect", "total"]
    assert [contrast.name for contrast in plan.shown_contrasts()] == names
    assert plan.varied() == ["developer_cloud.cap_gpus", "developer_cloud.price_rule", "pricing.anchor_weight"]
    assert {arm.scenario.developer_cloud.firm_gpus for arm in plan.arms} == {10_000.0}


def test_the_arms_of_a_design_beat_what_the_user_sets():
    plan = Design.load().plan(assignments=["developer_cloud.cap_gpus=300"], seeds=1, weeks=4)
    assert [arm.scenario.developer_cloud.cap_gpus for arm in plan.arms] == [0.0, 300.0, 300.0, 300.0, 300.0]
    assert {arm.scenario.weeks for arm in plan.arms} == {4}


def test_seeds_follow_the_first_and_zero_is_one():
    assert Design.load().plan(seeds=3, first_seed=0).seeds == (0, 1, 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('arms = [{ name = "a" }, { name = "a" }]', "the name 'a' stands twice"),
        ('arms = [{ nam = "a" }]', "arms.0.name"),
        ('arms = [{ name = "a", sets = {} }]', "unknown key arms.0.sets; nearest: set"),
        ("arms = []", "arms"),
        ('seeds = 0\narms = [{ name = "a" }]', "seeds = 0"),
        (
            'arms = [{ name = "a" }]\ncontrasts = [{ name = "c", arm = "a", base = "b" }]',
            "contrast 'c', base = 'b': no such name",
        ),
    ],
)
def test_a_bad_design_is_refused_in_one_line_that_names_it(tmp_path, text, told):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        Design.load(path)
    assert str(caught.value).startswith(str(path))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_arm_that_sets_an_impossible_value_is_named(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[[arms]]\nname = "big"\nset = { "developer_cloud.cap_gpus" = 20000 }\n', encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"experiment mine, arm big: developer_cloud\.cap_gpus = 20000"):
        Design.load(path).plan()


def test_an_unknown_experiment_names_the_nearest():
    with pytest.raises(ScenarioError, match="nearest: developer-cloud"):
        Design.load("developer-clod")


def test_every_built_in_design_has_a_question_and_a_plan():
    for name in design_names():
        assert Design.load(name).question.endswith("?")
        assert Design.load(name).plan().rows()


RECESSION = {"events.slump.kind": "demand", "events.slump.week": 3, "events.slump.size": -0.3}


def test_arms_may_vary_an_event_and_each_arm_is_checked_by_its_own_names():
    base = Scenario.load()
    slump = base.with_(RECESSION)
    plan = make_plan(
        "slumps", base, [Arm("none", base), Arm("mild", slump.set("events.slump.size", -0.1)), Arm("deep", slump)]
    )
    assert plan.varied() == [f"events.slump.{field}" for field in ("kind", "segment", "size", "week", "weeks")]
    assert len({spec.id for spec in plan.rows()}) == len(plan.rows())
    nobody = {"kind": "tenant-leaves", "week": 3, "seller": "Nobody", "share": 0.5}
    absent = base.with_({f"events.exit.{field}": cell for field, cell in nobody.items()})
    with pytest.raises(ScenarioError, match="no such seller in this market"):
        make_plan("slumps", base, [Arm("none", base), Arm("exit", absent)])
