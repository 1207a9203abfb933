"""A report says what the files say, to the last digit shown, and how to find it there."""

from __future__ import annotations

import csv
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from experiments import api, cli
from experiments.design import Design
from experiments.engine import runner
from experiments.show import document, report
from experiments.show.document import (
    Bullets,
    Code,
    Document,
    Link,
    Mono,
    Paragraph,
    Picture,
    Section,
    Strong,
    Table,
    Terms,
)
from experiments.show.figures import drawings
from experiments.show.glossary import TERMS
from experiments.show.words import Numbers, cells, says
from tests.experiments.legible import outside, overlapping

WEEKS = 6


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> api.Results:
    """The default experiment in a small market: 5 arms of 3 seeds, with its report."""
    folder = tmp_path_factory.mktemp("reported") / "out"
    plan = Design.load().plan(changes={"tenants.rows": 300}, seeds=3, weeks=WEEKS)
    return api.carry_out(plan, out=folder, workers=1, command="neocloud experiment --seeds 3")


class Page(HTMLParser):
    """Text of a page by section, and the cells of its tables by the table's title."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: dict[str, str] = {}
        self.tables: dict[str, list[list[str]]] = {}
        self.images: list[dict[str, str]] = []
        self.links: list[str] = []
        self._section, self._title, self._within = "", "", list[str]()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = {name: value or "" for name, value in attrs}
        if tag == "section":
            self._section = found["id"]
        if tag in ("caption", "summary"):
            self._title = ""
        if tag == "tr":
            self.tables.setdefault(self._title, []).append([])
        if tag in ("td", "th"):
            self.tables[self._title][-1].append("")
        if tag == "img":
            self.images.append(found)
        self.links += [found[name] for name in ("href", "src") if name in found]
        if tag not in ("meta", "link", "img"):
            self._within.append(tag)

    def handle_endtag(self, tag):
        while self._within and self._within.pop() != tag:
            pass

    def handle_data(self, data):
        self.sections[self._section] = self.sections.get(self._section, "") + data
        if self._within[-1:] in (["caption"], ["summary"]):
            self._title += data
        if {"td", "th"} & set(self._within):
            self.tables[self._title][-1][-1] += data


def markdown_tables(text: str) -> dict[str, list[list[str]]]:
    """Cells of the tables of a Markdown text by the bold line or the folded title above each, marks taken out."""
    tables: dict[str, list[list[str]]] = {}
    title = ""
    for line in text.splitlines():
        if found := re.match(r"\*\*(.+)\*\*$|<details><summary>(.+)</summary>", line):
            title = found[1] or found[2]
        elif line.startswith("|") and not line.startswith("| ---"):
            row = [cell.strip().replace("`", "") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            tables.setdefault(title, []).append(row)
    return tables


@pytest.fixture(scope="module")
def page(results) -> Page:
    return Page((results.out / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=["html", "md"])
def tables(request, results) -> dict[str, list[list[str]]]:
    text = (results.out / f"report.{request.param}").read_text(encoding="utf-8")
    return Page(text).tables if request.param == "html" else markdown_tables(text)


def lines_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def shown(value: str, label: str, *, sign: bool = False) -> str:
    """A value of a file as the report writes it in a row of that label."""
    if value == "":
        return "-"
    if label.endswith(", %"):
        factor, decimals = 100.0, 2
    else:
        factor, decimals = (1e-6 if ", million " in label else 1.0), 3
    return f"{float(value) * factor:{'+' if sign else ''},.{decimals}f}".replace("-", "−")


def expected(row: dict[str, str], label: str) -> str:
    """The cell of a row of ``summary.csv`` or ``effects.csv``."""
    if "mean" in row:
        return shown(row["mean"], label)
    found = shown(row["difference"], label, sign=True)
    return f"{found} [{shown(row['low'], label)}, {shown(row['high'], label)}]" if row["low"] else found


TITLES = (
    "Rental prices and their spread",
    "Margins of neoclouds",
    "AMD's share of the market, and the Developer Cloud",
)
SECTIONS = ["answer", "runs", "assumptions", "tables", "figures", "money", "reproduce", "glossary"]


@pytest.mark.parametrize("title", TITLES)
def test_every_cell_is_the_line_of_the_file_that_it_names(results, tables, title):
    files = {name: lines_of(results.out / name) for name in ("summary.csv", "effects.csv")}
    head, *rows = tables[f"{title}, weeks 1-{WEEKS}"]
    _, *behind = tables[f"Rows behind this table: {title}"]
    places = {(number.rpartition(": ")[0], of): (number, place) for number, of, place, *_ in behind}
    for label, *values in rows:
        for column, value in zip(head[1:], values, strict=True):
            value = " ".join(value.split())
            number, place = places.get((label, column), (f"{label}: -", ""))
            assert number == f"{label}: {value}"
            if place:
                file, _, line = place.partition(" line ")
                row = files[file][int(line) - 2]
                assert value == expected(row, label), place
                assert row.get("contrast", row["arm"]) == column
                assert (row["window_first"], row["window_last"]) == ("1", str(WEEKS))
    assert len(places) > len(rows)


@pytest.mark.parametrize("title", TITLES)
def test_the_cells_are_those_of_the_screen(results, tables, title):
    numbers = Numbers(results)
    (screen,) = (screen for screen in report._screens(numbers) if screen.title == title)
    wanted = [list(cells(numbers, metric)) for metric in screen.metrics]
    assert [[" ".join(cell.split()) for cell in row] for row in tables[f"{title}, weeks 1-{WEEKS}"][1:]] == wanted


def test_the_answer_is_the_sentence_of_the_screen_and_its_numbers_are_those_of_the_file(results, page):
    numbers = Numbers(results)
    answer = " ".join(page.sections["answer"].split())
    keys = ("contrast", "metric", "sku", "provider_class")
    year = [row for row in lines_of(results.out / "effects.csv") if row["window_first"] == "1"]
    rows = {tuple(row[key] for key in keys): row for row in year}
    for at, screen in enumerate(report._screens(numbers)):
        assert says(numbers, screen, first=at == 0) in answer
    first = rows["price effect", "price_mean", "MI300X", "neocloud+marketplace"]
    assert f"{expected(first, 'x')} USD/GPU-h (95 % interval, 3 seeds)" in answer
    margin = rows["price effect", "operating_margin", "all", "neocloud"]
    assert f"{expected(margin, 'x, %')} points" in answer


def test_the_markdown_says_the_same_as_the_page(results, page):
    text = (results.out / "report.md").read_text(encoding="utf-8")
    plain = re.sub(r"\\(.)", r"\1", text.replace("**", ""))
    for at, screen in enumerate(report._screens(Numbers(results))):
        assert says(Numbers(results), screen, first=at == 0) in plain
    anchors = re.findall(r'^<a id="(\w+)"></a>$', text, re.MULTILINE)
    assert anchors == [name for name in page.sections if name] == SECTIONS
    pictures = re.findall(r"!\[.+\]\((figures/\w+\.png)\)", text)
    assert len(pictures) == len(page.images) == 9
    assert all((results.out / picture).is_file() for picture in pictures)


def test_no_text_of_its_figures_lies_on_another_or_leaves_it(results):
    for drawing in drawings(results, Numbers(results)):
        assert overlapping(drawing.figure) == [], drawing.name
        assert outside(drawing.figure) == [], drawing.name


def test_the_money_of_the_kinds_adds_up(tables):
    (title,) = (title for title in tables if title.startswith("Money by kind of agent"))
    numbers = [[float(cell.replace("−", "-").replace(",", "")) for cell in row[1:]] for row in tables[title][1:]]
    *kinds, every = numbers
    for column in range(3):
        assert sum(row[column] for row in kinds) == pytest.approx(every[column], abs=1e-4 * len(kinds))
    assert all(gets - gives == pytest.approx(change, abs=2e-4) for gets, gives, change in numbers)


def test_it_names_command_versions_runs_and_assumptions(results, page):
    again = page.sections["reproduce"]
    assert "neocloud experiment --seeds 3" in again
    assert all(run in again for run in results.runs["id"])
    assert results.manifest["sources"] in again
    rests = page.sections["assumptions"]
    for key in (
        "pricing.anchor_weight",
        "developer_cloud.cap_gpus",
        "developer_cloud.price_rule",
        "pricing.rival_pull",
    ):
        assert key in rests, key
    assert "docs/background/assumptions.md" in rests


def test_the_page_needs_no_other_file_and_travels(results, page, tmp_path):
    assert [link for link in page.links if not link.startswith(("data:", "#", "https://"))] == []
    assert str(results.out) not in (results.out / "report.html").read_text(encoding="utf-8")
    assert all(image["alt"] and image["src"].startswith("data:image/svg+xml") for image in page.images)
    moved = tmp_path / "moved"
    shutil.copytree(results.out, moved)
    before = (moved / "report.html").read_bytes()
    for path in [*moved.glob("report.*"), *moved.glob("*.csv")]:
        path.unlink()
    assert cli.main(["report", str(moved)]) == 0
    assert (moved / "report.html").read_bytes() == before


def test_glossary_and_text_agree(page):
    text = page.sections["glossary"]
    for term in ("neocloud", "seed", "interval", "anchor", "spread", "hyperscaler"):
        assert TERMS[term] in text
    assert "half of whose GPUs" in text


# ------------------------------------------------------------------------------------------------ unfinished, failed


def _interrupted(fake_market, after: int) -> None:
    """Three seeds of the default experiment in the folder ``cut``, given up after some runs."""
    simulate, done = runner.simulate, []

    def gives_up(scenario, seed):
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(seed)
        return simulate(scenario, seed)

    fake_market(gives_up)
    assert cli.main(["experiment", "--seeds", "3", "--weeks", "2", "--workers", "1", "--out", "cut"]) == 130
    fake_market(simulate)


def test_an_unfinished_experiment_is_reported_under_a_banner(fake_market, in_folder, capsys):
    _interrupted(fake_market, 7)
    capsys.readouterr()
    assert cli.main(["report", "cut"]) == 3
    output, complaints = capsys.readouterr()
    assert output == "Report: cut/report.html\n"
    assert complaints.count("\n") == 1
    assert "7 of 15 runs are done; to go on: neocloud" in complaints
    text = Page(Path("cut/report.html").read_text(encoding="utf-8")).sections[""]
    assert "Unfinished: 7 of 15 runs are done" in text
    assert "Nothing yet of: same-hours, anchor off, offer, anchor off." in text


def test_a_folder_that_cannot_be_written_ends_with_one_line(fake_market, in_folder, capsys):
    assert cli.main(["run", "--seeds", "2", "--weeks", "2", "--workers", "1", "--out", "here"]) == 0
    shutil.rmtree("here/figures")
    Path("here/figures").touch()
    capsys.readouterr()
    assert cli.main(["report", "here"]) == 1
    complaints = capsys.readouterr().err
    assert complaints.count("\n") == 1
    assert "Error: cannot write here/figures" in complaints


def test_failed_runs_are_named_in_the_report(fake_market, in_folder, capsys):
    simulate = runner.simulate

    def fails(scenario, seed):
        return simulate(scenario, seed) if seed != 2 else 1 / 0

    fake_market(fails)
    assert cli.main(["run", "--seeds", "3", "--weeks", "2", "--workers", "1", "--out", "here"]) == 3
    assert cli.main(["report", "here"]) == 3
    page = Page(Path("here/report.html").read_text(encoding="utf-8"))
    assert "1 of 3 runs failed" in page.sections[""]
    assert page.tables["Failed runs"][1:] == [["baseline-2025", "2", "ZeroDivisionError: division by zero"]]
    assert "1 of 3 runs failed" in capsys.readouterr().err


def test_one_arm_is_reported_by_its_levels(fake_market, in_folder):
    assert cli.main(["run", "--seeds", "3", "--weeks", "2", "--workers", "1", "--out", "here"]) == 0
    page = Page(Path("here/report.html").read_text(encoding="utf-8"))
    level = r"list price of MI300X in baseline-2025 is [\d.]+ \[[\d.]+, [\d.]+\] USD/GPU-h"
    assert re.search(level, page.sections["answer"])
    assert "Contrasts" not in page.tables


@pytest.mark.parametrize(("folder", "told"), [("absent", "no such folder"), (".", "not a folder of results")])
def test_what_is_no_folder_of_results_is_one_line_and_exit_code_two(in_folder, capsys, folder, told):
    assert cli.main(["report", folder]) == 2
    output, complaints = capsys.readouterr()
    assert (output, complaints.count("\n")) == ("", 1)
    assert told in complaints
    assert not list(in_folder.iterdir())


# ------------------------------------------------------------------------------------------------ documents

NASTY = "a|b <script>alert(1)</script> *c* _d_ `e` [f](g) $1 & \\ # x"


def nasty(svg: Path) -> Document:
    blocks = [
        Paragraph((NASTY, Mono("m|n"), Strong(NASTY), Link(NASTY, "https://example.org/?a=1&b=2"))),
        Bullets([NASTY]),
        Table([NASTY, "n"], [[NASTY, "1"]], NASTY, NASTY, numbers=1),
        Picture("p", NASTY, NASTY, NASTY, svg),
        Code("c"),
        Terms([(NASTY, NASTY)]),
    ]
    return Document(NASTY, NASTY, [Section("s", NASTY, blocks)], [NASTY])


def test_names_of_users_are_text_and_never_markup(tmp_path):
    (tmp_path / "p.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    page = Page(nasty(tmp_path / "p.svg").html())
    assert "<script>" not in nasty(tmp_path / "p.svg").html()
    assert page.sections["s"].count(NASTY) >= 8
    text = nasty(tmp_path / "p.svg").markdown()
    assert not re.search(r"(?<!\\)<script", text)
    assert not re.search(r"(?<!\\)\$", text)
    (row,) = (line for line in text.splitlines() if line.startswith("|") and line.endswith("| 1 |"))
    assert len(re.split(r"(?<!\\)\|", row)) == 4


@pytest.mark.parametrize(
    ("text", "written"),
    [("a_b", "a_b"), ("_a_", r"\_a\_"), ("- a", r"\- a"), ("1. a", r"1\. a"), ("−0.1 [−0.2, 0.0]", "−0.1 [−0.2, 0.0]")],
)
def test_a_text_in_markdown_reads_as_it_stands(text, written):
    assert document.escaped(text) == written
