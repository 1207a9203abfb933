"""The documentation: how-tos are carried out, generated pages are current, names and numbers are the program's."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from agents.rules import pricing
from experiments.cli import main
from experiments.design import design_names
from experiments.show import report
from market.parameters import parameter_rows

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
HOW_TOS = [*sorted((DOCS / "how-to").glob("*.md")), DOCS / "tutorial.md"]
QUESTIONS = ("developer-cloud", "lepton", "leaseback", "capacity")
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: language, file name if it has a title, text."""

    language: str
    title: str
    text: str


def _name(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def _blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def _without_blocks(page: Path) -> str:
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------ how-tos


def _steps(block: Block) -> Iterator[tuple[list[str], list[str]]]:
    """Commands of a console block, each with the lines it is said to print."""
    command, expected = "", list[str]()
    for line in [*block.text.splitlines(), "$ "]:
        if line.startswith("$ "):
            if command:
                yield shlex.split(command), expected
            command, expected = line[2:], []
        else:
            expected.append(line)


_RUNNING = ("experiment", "run", "compare")
_SHORTER = shlex.split("--weeks 4 --seeds 2 --set tenants.rows=300 --workers 1 --quiet")


def _shorter(arguments: list[str]) -> list[str]:
    """A command that runs the market, with fewer weeks, seeds and tenants, unless it is small already."""
    is_small = arguments[0] not in _RUNNING or "--workers" in arguments
    return arguments if is_small else [*arguments, *_SHORTER]


def _carry_out(arguments: list[str], expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command: each expected line (``*`` is anything) is printed, and it fails only where that is said."""
    assert arguments[0] == "neocloud", f"only neocloud commands are shown: {arguments}"
    capsys.readouterr()
    code = main(_shorter(arguments[1:]))
    printed = capsys.readouterr()
    lines = (printed.out + printed.err).splitlines()
    fails = any(line.startswith("Error:") for line in expected)
    assert code == (2 if fails else 0), f"{arguments}: exit code {code}\n{printed.err}"
    for pattern in expected:
        assert any(fnmatchcase(line.rstrip(), pattern) for line in lines), f"{arguments} does not print {pattern!r}"


@pytest.fixture
def figures_where_read(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are drawn where a page is about them: they take longer than everything else together."""
    if page.stem != "read-a-report":
        monkeypatch.setattr(report, "drawings", lambda results, numbers: iter(()))


@pytest.mark.usefixtures("figures_where_read")
@pytest.mark.parametrize("page", HOW_TOS, ids=lambda page: page.stem)
def test_a_how_to_works_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    registered = dict(pricing.PRICING)
    names: dict[str, object] = {"__name__": "how_to"}
    try:
        for block in _blocks(page):
            if block.title:
                Path(block.title).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                exec(compile(block.text, f"{page.name}", "exec"), names)
            elif block.language == "console":
                for arguments, expected in _steps(block):
                    _carry_out(arguments, expected, capsys)
            else:
                pytest.fail(f"{page.name}: a block of {block.language} without a title is never executed")
    finally:
        pricing.PRICING.clear()
        pricing.PRICING.update(registered)


def test_the_promised_how_tos_are_there() -> None:
    wanted = {"add-a-chip", "add-a-seller", "write-a-pricing-rule", "bring-your-own-fleet", "write-a-scenario"}
    wanted |= {"know-your-costs", "tutorial"}
    assert wanted <= {page.stem for page in HOW_TOS}


def _questions() -> list[tuple[str, str, Path]]:
    """Rows of the table of questions: question, command, page."""
    part = (DOCS / "index.md").read_text(encoding="utf-8").partition("## Questions")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| `([^|]+)` \| \[[^\]]+\]\(([\w/-]+\.md)[#\w-]*\) \|$", part, re.MULTILINE)
    assert len(rows) == part.count("\n| ") - 1, "a row is not of the form question, command, page"
    return [(question, command, DOCS / page) for question, command, page in rows]


def test_every_question_has_a_command_that_its_page_carries_out() -> None:
    for question, command, page in _questions():
        assert question.endswith("?")
        shown = [line for block in _blocks(page) if block.language == "console" for line in block.text.splitlines()]
        assert any(line.startswith(f"$ {command}") for line in shown), f"{_name(page)} does not show {command}"


def test_every_built_in_experiment_is_the_command_of_a_page() -> None:
    texts = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = set(re.findall(r"neocloud experiment ([a-z][a-z-]*)", texts))
    assert [name for name in design_names() if name not in shown] == ["developer-cloud"]
    assert "neocloud experiment`" in texts


def test_a_page_of_a_question_says_how_to_read_it_and_what_it_cannot_say() -> None:
    pages = {page for _, _, page in _questions()} - {DOCS / "how-to" / "know-your-costs.md"}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert re.search(r"^## (How to read it|Are the seeds enough\?)$", text, re.MULTILINE), _name(page)
        assert "\n## What it cannot say\n" in text, _name(page)


def test_the_tutorial_installs_as_the_readme_does() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    install = "python3 -m venv .venv && .venv/bin/pip install -q -e . && "
    assert install in readme
    assert install in (DOCS / "tutorial.md").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------ generated pages


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_what_the_script_gives() -> None:
    for path, text in _generator().pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{_name(path)} is not current: run python docs/generate.py"


def test_every_parameter_stands_in_the_assumptions_once() -> None:
    text = (DOCS / "background" / "assumptions.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE)) == sorted(parameter_rows())


# ------------------------------------------------------------------------------------------------ pages and code


def _phases() -> list[str]:
    """Calls of `play_week` in order, as the page names them."""
    tree = ast.parse((ROOT / "market" / "week.py").read_text(encoding="utf-8"))
    week = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "play_week")
    calls = [node for statement in week.body for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return [ast.unparse(call.func).removeprefix("model.") for call in calls]


def test_the_order_of_play_is_that_of_the_week() -> None:
    text = (DOCS / "background" / "mechanisms.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \d+ \| `([\w.]+)` \|", text, re.MULTILINE) == _phases()


def test_every_pricing_rule_has_a_row() -> None:
    text = (DOCS / "background" / "mechanisms.md").read_text(encoding="utf-8")
    assert set(pricing.PRICING) <= set(re.findall(r"^\| `([\w-]+)`", text, re.MULTILINE))


def _sections() -> set[str]:
    return {key.partition(".")[0] for key in parameter_rows()}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_parameters_named_on_a_page_exist_and_quoted_defaults_are_theirs(page: Path) -> None:
    rows, text = parameter_rows(), _without_blocks(page)
    for key in re.findall(r"`([a-z_]+\.[a-z0-9_]+)(?:=[^`]*)?`", text):
        assert key.partition(".")[0] not in _sections() or key in rows, f"no parameter {key}"
    for key, quoted in _quoted_defaults(text):
        assert float(quoted) == float(rows[key].value), f"{key} is {rows[key].value}"


def _quoted_defaults(text: str) -> list[tuple[str, str]]:
    """Parameters followed by a number that is not a setting, such as ``pricing.floor_factor = 1.05``."""
    found = re.findall(r"`([a-z_]+\.[a-z0-9_]+)`\s+= (-?\d[\d.]*\d|\d)", text)
    return [(key, value) for key, value in found if key in parameter_rows() and not _is_setting(text, key, value)]


def _is_setting(text: str, key: str, value: str) -> bool:
    """Whether a page tells what to set (the last cell of a table row, or an arm) rather than what the default is."""
    return bool(re.search(rf"\| `{re.escape(key)}` = {re.escape(value)} \|$", text, re.MULTILINE))


_FORMULAS = {
    "mechanisms": {
        "demand.common_persistence": "A_t       = {} A_(t−1)",
        "demand.common_sd": "A_(t−1) + N(0, {})",
        "demand.own_persistence": "a_jt      = {} a_j(t−1)",
        "demand.own_sd": "a_j(t−1) + N(0, {})",
        "demand.price_smoothing": "I_g(t−1) + {} × (now_g",
        "pricing.turned_away_weight": "pooled + {} × turned away",
        "pricing.tightness_maximum": "available, {} )",
        "pricing.tightness_smoothing": "u  += {} × (now",
        "pricing.anchor_offset": "f (ln p_cloud + {:0<3})",
        "pricing.anchor_weight": "f = {} × salience",
        "pricing.anchor_fleet_share": "cap / (cap + {} × third-party",
        "pricing.pool_anchor_weight": "g = {} × min(1, pooled",
        "pricing.adjust_per_week": "s += {} (u",
        "pricing.rival_pull": "+ {} (R + kept",
        "pricing.noise_sd": "+ {} N(0, 1)",
        "pricing.cost_speed": "s += {} (ln(1.35",
        "pricing.cost_markup": "(ln({} × full cost",
        "pricing.cost_utilisation": "full cost / {})",
        "pricing.cost_premium_share": "+ {} × kept × premium",
        "pricing.cost_tightness": "+ {} clip(u",
        "pricing.derivative_step": "a step of {} in",
        "pricing.derivative_interval_weeks": "every {} weeks a step",
        "pricing.best_speed": "s += {} (ln(marginal",
        "pricing.best_elasticity": "e = {};",
        "pricing.best_slack": "as u goes from {:0<3} to 1",
        "pricing.marketplace_close_share": "l += {} (s − l) every week",
        "pricing.hyperscaler_speed": "s += {} (ln base",
        "pricing.hyperscaler_follow": "premium + {} index",
        "pricing.hyperscaler_adjust": "− s) + {} (u",
        "pricing.hyperscaler_close_share": "by its hazard, {} of a gap",
        "pricing.hyperscaler_gap": "of a gap above {} |",
        "pricing.learning_rate": "worth[s, a] + {} (r",
        "pricing.learning_patience": "(r + {} max worth",
        "pricing.learning_decay_per_week": "e^(−{} t)",
        "pricing.revision_gap": "|s − l| / {},",
        "pricing.revision_factor_minimum": ", {}, 2.5)",
        "pricing.revision_factor_maximum": ", .5, {})",
        "pricing.revision_scale": "2.5) × {} ×",
        "pricing.revision_sku_share": "1.15 × {}\n",
        "pricing.term_tightness_slope": "(1 + {} clip(u",
        "pricing.term_tightness_clip": "−{0}, {0})), ",
        "pricing.term_shadow_weight": "exp( {} s",
        "pricing.spot_factor_neocloud": "spot = list × {} ",
        "pricing.spot_hyperscaler_base": "list × clip({} + (u",
        "pricing.spot_hyperscaler_threshold": "(u − {:0<3})⁺",
        "pricing.spot_marketplace_base": "list × clip({} + .3",
        "pricing.term_factor_4w": "Factors {:0<3},",
        "pricing.term_factor_52w": "Factors .70, {:0<3} and",
        "pricing.term_factor_156w": "and {} for 4, 52",
        "choice.size_pull": "taste_ji + {} ln(max",
        "choice.brand_exponent": "fleet^{};",
        "clearing.priority_156w": "three years {},",
        "clearing.priority_52w": "one year {},",
        "clearing.priority_4w": "four weeks {},",
        "clearing.priority_on_demand": "on demand {:.1f},",
        "clearing.priority_spot": "spot {:.1f}.",
        "lepton.offered_share": "pool = {} × Σ spare",
        "capacity.hurdle_rate": "w = {} − .044",
        "capacity.hurdle_contracted": ".13 − {} (c",
        "capacity.contracted_base": "min({} + cover",
        "capacity.used_maximum": "u_f     = min({},",
        "capacity.unserved_weight": "use + {} × turned away",
        "capacity.demand_memory": "exp({} × growth",
        "capacity.target_load": "forecast / {} ×",
        "capacity.index_minimum": "index, {}, 3)",
        "capacity.entry_exponent": ", 3)^{} −",
        "capacity.fleet_exponent": "(fleet^{};",
        "capacity.hyperscaler_weight": "hyperscalers × {},",
        "capacity.marketplace_weight": "hosts × {},",
        "capacity.covenant_weight": "covenant × {})",
        "finance.loan_to_value_base": "loan to value {:0<3} +",
        "finance.loan_to_value_contracted": ".60 + {:0<3} c",
        "finance.rate_uncontracted": "rate {} −",
        "finance.rate_contracted_discount": ".135 − {:0<4} c",
        "finance.resale_quote_factor": "second-hand = ({} ×",
        "finance.resale_use": "quote × {} − running",
        "finance.resale_discount_per_year": "e^(−{} L)",
    },
    "lepton": {
        "lepton.core_share": "({} × quote",
        "lepton.pool_rivalry": "(1 − {} × min(1, spare",
        "lepton.spare_full": "spare_i / {})",
        "pricing.floor_factor": "floor = {} × running",
        "lepton.volume_margin": "marginal at {} × last",
        "lepton.join_spare_weight": "{:.0f} (spare share",
        "lepton.join_spare_reference": "(spare share − {})",
        "lepton.join_premium_weight": "− {} max(premium",
        "lepton.join_fee_weight": "− {:.0f} (take rate",
        "lepton.join_pressure_weight": "+ {} × pressure",
    },
    "leaseback": {"leaseback.lease_rate_usd_per_gpu_hour": "= {:0<4} × capital_k", "leaseback.term_weeks": "= {} |"},
}
"""Where the pages write a default as a plain number inside a formula."""


class _Plain(str):
    """A number as formulas write it: ``.11`` for 0.11; a format for floats or a fill for texts."""

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec.endswith("f") else format(str(self), spec)


def _plain(value: str) -> _Plain:
    return _Plain(f"{float(value):g}".replace("0.", ".", 1) if abs(float(value)) < 1 else f"{float(value):g}")


@pytest.mark.parametrize("page", sorted(_FORMULAS))
def test_numbers_in_formulas_are_the_defaults(page: str) -> None:
    text, rows = (DOCS / "background" / f"{page}.md").read_text(encoding="utf-8"), parameter_rows()
    for key, written in _FORMULAS[page].items():
        expected = written.format(_plain(rows[key].value))
        assert expected in text, f"{page}.md does not say {expected!r} ({key} = {rows[key].value})"


def test_every_dependency_has_a_row() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(name for group in project["optional-dependencies"].values() for name in group),
    ]
    text = (DOCS / "background" / "dependencies.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| ([\w.-]+) \|", text, re.MULTILINE))
    missing = [name for spec in wanted if (name := re.split(r"[<>=!~\[ ]", spec)[0]) not in named]
    assert not missing, f"dependencies.md has no row of {', '.join(missing)}"


def test_every_question_has_one_place_for_measured_numbers() -> None:
    for question in QUESTIONS:
        text = (DOCS / "background" / f"{question}.md").read_text(encoding="utf-8")
        places = re.findall(rf"<!-- measured: {question} -->\n(.*?)<!-- /measured: {question} -->", text, re.DOTALL)
        assert len(places) == 1, question


# ------------------------------------------------------------------------------------------------ links


def _anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as the site makes them."""
    headings = re.findall(r"^#+ (.+)$", _without_blocks(page), re.MULTILINE)
    kept = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[-\s]+", "-", heading) for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_and_anchors_inside_the_docs_resolve(page: Path) -> None:
    for link in re.findall(r"\]\(([^)<>\s]+)\)", _without_blocks(page)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.is_file(), f"{_name(page)}: no page {link}"
        assert not anchor or anchor in _anchors(target), f"{_name(page)}: no heading {link}"


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r": ([\w/-]+\.md)$", text, re.MULTILINE)
    assert sorted(listed) == [_name(page) for page in PAGES]


def test_nothing_is_left_to_do() -> None:
    unfinished = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")))
    assert not [_name(page) for page in PAGES if unfinished.search(page.read_text(encoding="utf-8"))]


def test_the_site_builds_strictly(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        print("mkdocs-material is not installed: the site is not built (pip install -e '.[docs]')")
        pytest.skip("mkdocs-material is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
