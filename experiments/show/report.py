"""The report of an experiment: what it found, how sure that is, what it rests on, and how to do it again.

It is arranged from the stored tables alone: every number comes from ``summary.csv``, ``effects.csv`` or a recorded
table, and says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import polars as pl

from experiments.engine.errors import StoreError
from experiments.engine.plan import Arm, Contrast, Plan, Screen
from experiments.measure.outcomes import OUTCOMES, meaning
from experiments.measure.passthrough import MEANING, PASS_THROUGH, POSTED
from experiments.show import plots, response
from experiments.show.document import (
    Block,
    Bullets,
    Code,
    Document,
    Link,
    Mono,
    Paragraph,
    Picture,
    Section,
    Span,
    Strong,
    Table,
    Terms,
    Text,
    plain,
)
from experiments.show.figures import MONEY, Weeks, drawings, flow_arm, flow_in_words, seed_range
from experiments.show.glossary import terms_in
from experiments.show.risk import risk_rows, risk_title
from experiments.show.words import (
    DEFAULT_SCREENS,
    Numbers,
    carried,
    cells,
    difference_of,
    extent,
    headings,
    headline,
    in_words,
    level_sentence,
    noun,
    number,
    passed_on,
    riders,
    sentence,
    titled,
)
from market.parameters import ParameterRow, parameter_rows

if TYPE_CHECKING:
    from experiments.api import Results
    from experiments.scenario import Scenario

__all__ = ["document", "write"]

_MOST_ROWS = 12  # arms that a table holds open, or side by side


def write(results: Results) -> None:
    """Draw the figures and write ``report.html`` and ``report.md`` into the folder of the results.

    Raises:
        StoreError: the folder cannot be written.
    """
    found = document(results, _pictures(results))
    results.store.folder.write_text("report.html", found.html())
    results.store.folder.write_text("report.md", found.markdown())


def _pictures(results: Results) -> list[Picture]:
    """Figures, drawn and saved."""
    folder = results.out / "figures"
    pictures = []
    for drawing in drawings(results, Numbers(results)):
        try:
            _, svg = plots.save(drawing.figure, folder, drawing.name)
        except OSError as error:
            raise StoreError(f"cannot write {folder / drawing.name}: {error.strerror or error}") from None
        pictures.append(Picture(drawing.name, drawing.title, drawing.caption, drawing.alt, svg))
    return pictures


def document(results: Results, pictures: Sequence[Picture] = ()) -> Document:
    """The report of an experiment.

    Args:
        results: of the experiment, whole or of the runs that are finished.
        pictures: its figures.
    """
    numbers = Numbers(results)
    swept = response.applies(results)
    sections = [
        Section("answer", "The answer", _swept(results) if swept else _answer(numbers)),
        Section("runs", "What was run", _runs(results, numbers)),
        Section("assumptions", "What it rests on", _assumptions(results, numbers)),
        Section("tables", "Tables", list(_swept_tables(results)) if swept else list(_tables(results, numbers))),
        Section("figures", "Figures", [picture for picture in pictures if picture.name != MONEY]),
        Section("money", "Flow of money", [*_money_pictures(pictures), *_money(results, numbers)]),
        Section("reproduce", "How to do it again", list(_again(results))),
    ]
    sections = [section for section in sections if section.blocks]
    glossary = Section("glossary", "Glossary", _glossary(results, numbers, sections))
    lead = results.plan.question or f"What does {results.plan.name} come to?"
    return Document(results.plan.name, lead, [*sections, glossary], _warnings(results))


def _warnings(results: Results) -> list[str]:
    """What a reader must know first."""
    found = []
    if results.missing:
        absent = [arm.name for arm in results.plan.arms if arm.name not in set(results.runs["arm"])]
        arms = f" Nothing yet of: {', '.join(absent)}." if absent else ""
        found.append(f"Unfinished: {results.go_on()}.{arms} All numbers below are of the finished runs and will move.")
    if results.failed:
        total = results.runs.height
        found.append(
            f"{results.failed} of {total} runs failed and are left out; their reasons stand under What was run."
        )
    if len(results.plan.seeds) == 1:
        found.append("One seed: no number below has an interval, and none tells luck from policy.")
    return found


# ------------------------------------------------------------------------------------------------ answer


def _screens(numbers: Numbers) -> tuple[Screen, ...]:
    return numbers.plan.screens or DEFAULT_SCREENS


def _answer(numbers: Numbers) -> list[Block]:
    """One sentence to a table: its first contrast, or without contrasts its level in each arm."""
    screens = _screens(numbers)
    items: list[Text]
    if numbers.contrasts:
        items = [_said(numbers.of(screen), screen, first=at == 0) for at, screen in enumerate(screens)]
    else:
        items = [
            level_sentence(numbers.of(screen), arm, screen.metrics[0]) for screen in screens for arm in numbers.arms
        ]
    return [Bullets(items, answers=True), Paragraph(_CAUTION)]


_CAUTION = (
    "An interval says how much of a number is the luck of these seeds. It does not say how wrong the assumptions "
    "may be; see What it rests on."
)


def _swept(results: Results) -> list[Block]:
    """One sentence an outcome: where it is lowest and highest, or what moves it most."""
    return [Bullets(list(response.sentences(results)), answers=True), Paragraph(_CAUTION)]


def _swept_tables(results: Results) -> Iterator[Block]:
    """Elementary effects, if there are any; then an arm a row, folded where it is long."""
    if response.screened(results):
        head, rows = response.screening_rows(results)
        yield Table(head, rows, "Elementary effects by outcome and lever (screening.csv)", numbers=len(head) - 2)
    head, rows = response.head_and_rows(results)
    folded = f"all {len(rows)} arms" if len(rows) > _MOST_ROWS else ""
    caption = "Means by arm with their intervals, or differences from the first arm paired by seed (response.csv)"
    yield Table(head, rows, caption, folded, numbers=len(head) - 1)


def _said(numbers: Numbers, screen: Screen, *, first: bool) -> Text:
    """The sentence of the screen, its head so that it cannot be missed."""
    rest = "".join(f"; {rider}" for rider in riders(numbers, screen, first=first))
    return (Strong(headline(numbers, screen)), f"{rest}.")


# ------------------------------------------------------------------------------------------------ runs


def _runs(results: Results, numbers: Numbers) -> list[Block]:
    """Arms, seeds, weeks, failures."""
    plan = results.plan
    weeks = sorted({arm.scenario.weeks for arm in plan.arms})
    length = f"{weeks[0]}" if len(weeks) == 1 else f"{weeks[0]} to {weeks[-1]}"
    head = f"{extent(numbers)} Each run is {length} weeks long; week 0 is the opening state, Monday 2 June 2025."
    by_arm = {arm: group for (arm,), group in results.runs.group_by("arm")}
    rows = [
        [arm.name, _set(plan.base, arm), *_counted(by_arm.get(arm.name), len(arm.seeds or plan.seeds))]
        for arm in plan.arms
    ]
    arms = Table(
        ["arm", "what it sets otherwise than scenario.toml", "seeds", "runs done", "failed"], rows, "Arms", numbers=2
    )
    return [Paragraph(head), arms, *_contrasts(plan.contrasts), *_failures(results)]


def _set(base: Scenario, arm: Arm) -> Text:
    """Keys in which an arm differs from the scenario that all arms vary."""
    changes = {key: theirs for key, (_, theirs) in base.differences(arm.scenario).items()} | dict(arm.asked)
    cells = [Mono(f"{key} = {_plain(theirs)}") for key, theirs in changes.items()]
    return tuple(part for cell in cells for part in (cell, ", "))[:-1] or "nothing: it is the scenario as it stands"


def _counted(runs: pl.DataFrame | None, seeds: int) -> list[str]:
    """Seeds, runs done of those asked for, and failures of an arm."""
    if runs is None:
        return ["-", f"0 of {seeds}", "0"]
    failed = runs.filter(pl.col("status") != "ok").height
    return [_without_word(seed_range(runs["seed"].sort().to_list())), f"{runs.height} of {seeds}", str(failed)]


def _without_word(seeds: str) -> str:
    return seeds.partition(" ")[2]


def _contrasts(contrasts: Sequence[Contrast]) -> Iterator[Block]:
    if contrasts:
        rows = [[contrast.name, difference_of(contrast)] for contrast in contrasts]
        yield Table(["contrast", "difference, seed by seed"], rows, "Contrasts")


def _failures(results: Results) -> Iterator[Block]:
    bad = results.runs.filter(pl.col("status") != "ok")
    if bad.height:
        rows = [[row["arm"], str(row["seed"]), row["message"]] for row in bad.iter_rows(named=True)]
        yield Table(["arm", "seed", "why it failed"], rows, "Failed runs")


# ------------------------------------------------------------------------------------------------ assumptions


def _assumptions(results: Results, numbers: Numbers) -> list[Block]:
    """What the answer leans on: assumptions that contrasts switch off, levers of the arms, the other guesses."""
    plan = results.plan
    varied = plan.varied()
    sections = {key.partition(".")[0] for key in varied} & {key.partition(".")[0] for key in parameter_rows()}
    guesses = [row for row in parameter_rows().values() if _is_guess(row) and row.key not in varied]
    near = [row for row in guesses if row.key.partition(".")[0] in (sections or {"demand", "pricing"})]
    far = [row for row in guesses if row not in near]
    values = plan.base.values()
    page: Text = (
        "All parameters with their sources stand on the page Assumptions of the documentation, ",
        Mono("docs/background/assumptions.md"),
        "; the values of these runs in ",
        Mono("scenario.toml"),
        " beside this report.",
    )
    return [
        *_switched_off(numbers),
        *_levers(plan.arms, varied),
        *_guesses(near, values, "Main assumptions: numbers nobody knows, with a range worth trying"),
        *_guesses(far, values, "", f"{len(far)} more assumptions with a range worth trying"),
        Paragraph(page),
    ]


def _switched_off(numbers: Numbers) -> Iterator[Block]:
    """Assumptions that contrasts name, and how much of each effect they carry."""
    metrics = list(dict.fromkeys(screen.metrics[0] for screen in _screens(numbers)))
    for assumption in dict.fromkeys(contrast.assumption for contrast in numbers.contrasts if contrast.assumption):
        named = [contrast for contrast in numbers.contrasts if contrast.assumption == assumption]
        rows = [
            [f"{noun(contrast)} on {in_words(metric)}", found.whole, found.bare, found.share if found.certain else "-"]
            for contrast in named
            for metric in metrics
            if (found := carried(numbers, contrast, metric))
        ]
        if rows:
            yield Paragraph((f"The experiment switches off {assumption} (", *_switch(numbers.plan, named), "):"))
            head = ["effect", f"with {assumption}", "without it", "its part of the effect"]
            caption = f"What {assumption} carries (no part where the effect cannot be told from zero)"
            yield Table(head, rows, caption, numbers=3)


def _switch(plan: Plan, contrasts: Sequence[Contrast]) -> tuple[Span, ...]:
    """Keys and values that switch an assumption off."""
    arms = {arm.name: arm.scenario for arm in plan.arms}
    without = {contrast.name: contrast.arm for contrast in plan.contrasts}
    changes = {
        key: theirs
        for contrast in contrasts
        for key, (_, theirs) in arms[contrast.arm].differences(arms[without[contrast.without]]).items()
    }
    return tuple(Mono(f"{key} = {_plain(value)}") for key, value in changes.items())


def _levers(arms: Sequence[Arm], varied: Sequence[str]) -> Iterator[Block]:
    """What the arms set differently."""
    if not varied or len(arms) > _MOST_ROWS:
        return
    known = parameter_rows()
    values = [arm.values() for arm in arms]
    rows: list[list[Text]] = [
        [
            Mono(key),
            known[key].note if key in known else "",
            _source(known[key]) if key in known else "",
            *(_plain(arm.get(key)) for arm in values),
        ]
        for key in varied
    ]
    head = ["key", "what it is", "source of the default", *(arm.name for arm in arms)]
    yield Table(head, rows, "What the arms set differently", numbers=len(arms))


def _is_guess(row: ParameterRow) -> bool:
    return row.confidence == "assumption" and row.kind == "uncertainty" and row.sweep_low != ""


def _guesses(
    rows: Sequence[ParameterRow], values: Mapping[str, Any], caption: str, folded: str = ""
) -> Iterator[Block]:
    if rows:
        head = ["parameter", "what it is", "source", "unit", "value", "range worth trying"]
        body: list[list[Text]] = [
            [
                Mono(row.key),
                row.note,
                _source(row),
                row.unit,
                _plain(values.get(row.key)),
                f"{_plain(row.sweep_low)} to {_plain(row.sweep_high)}",
            ]
            for row in rows
        ]
        yield Table(head, body, caption, folded, numbers=2)


def _source(row: ParameterRow) -> Text:
    parts = urlsplit(row.source)
    if not parts.scheme.startswith("http"):
        return row.source
    return (Link(parts.netloc.removeprefix("www."), row.source), f", {row.as_of}; confidence: {row.confidence}")


def _plain(value: Any) -> str:
    """A value of a parameter as people write it: ``10,000`` for 10000.0, ``-`` where there is none."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return f"{float(value):,.15g}".replace("-", "−")
    except ValueError:
        return str(value)


# ------------------------------------------------------------------------------------------------ tables


def _tables(results: Results, numbers: Numbers) -> Iterator[Block]:
    """The tables of the screen with their sentences, and the rows of the files behind each."""
    differences = "; contrasts: mean paired difference and its interval, in points where the unit is %"
    means = f"Arms: mean over seeds{differences if numbers.contrasts else ''}."
    yield Paragraph(means)
    for screen in _screens(numbers):
        shown = numbers.of(screen)
        rows = [list(cells(shown, metric, "\n")) for metric in screen.metrics]
        head = ["", *headings(shown)]
        yield Table(head, rows, titled(shown, screen), numbers=len(head) - 1)
        yield Bullets(_statements(shown, screen))
        behind = list(_rows_behind(results, shown, screen))
        yield Table(
            ["number", "of", "file and line", "arms", "runs"], behind, "", f"Rows behind this table: {screen.title}"
        )
    if results.plan.risk:
        heads, rows = risk_rows(results.risk)
        yield Table(["arm", *heads], rows, risk_title(results.risk), numbers=len(heads))


def _statements(numbers: Numbers, screen: Screen) -> list[str]:
    """Sentences on the first row of a table: every contrast, or without contrasts the level in every arm."""
    metric = screen.metrics[0]
    if numbers.contrasts:
        return [_with_part(numbers, contrast, metric) for contrast in numbers.contrasts]
    return [level_sentence(numbers, arm, metric) for metric in screen.metrics for arm in numbers.arms]


def _with_part(numbers: Numbers, contrast: Contrast, metric: str) -> str:
    """The sentence of an effect, and of one on list prices how far what leases pay follows."""
    told, part = sentence(numbers, contrast, metric), passed_on(numbers, contrast, metric)
    return f"{told.removesuffix('.')}; {part}." if part else told


def _rows_behind(results: Results, numbers: Numbers, screen: Screen) -> Iterator[list[Text]]:
    """Where each number of a table stands in the files, and which runs it is made of."""
    seeds = {
        arm: seed_range(group["seed"].sort().to_list())
        for (arm,), group in results.runs.filter(pl.col("status") == "ok").group_by("arm")
    }
    for metric in screen.metrics:
        name, *shown = cells(numbers, metric)
        found: list[tuple[str, dict[str, Any] | None, str]] = [
            (arm, numbers.mean(arm, metric), arm) for arm in numbers.arms
        ]
        found += [(c.name, numbers.effect(c.name, metric), difference_of(c)) for c in numbers.contrasts]
        for text, (column, row, arms) in zip(shown, found, strict=True):
            if row is not None:
                file, counted = ("effects.csv", "pairs") if "pairs" in row else ("summary.csv", "runs")
                runs = seeds.get(row["arm"], "no seed")
                yield [
                    f"{name}: {text}",
                    column,
                    (Mono(file), f" line {row['line']}"),
                    arms,
                    f"{runs}; {row[counted]} {counted}",
                ]


# ------------------------------------------------------------------------------------------------ money


def _money_pictures(pictures: Sequence[Picture]) -> list[Picture]:
    return [picture for picture in pictures if picture.name == MONEY]


def _money(results: Results, numbers: Numbers) -> Iterator[Block]:
    """Paid, received and the change of cash by kind of agent; every flow, folded."""
    weeks = Weeks(results, numbers)
    if not weeks.arms:
        return
    arm = flow_arm(weeks)
    flows = flow_in_words(results, arm)
    if flows.is_empty():
        return
    kinds = list(dict.fromkeys([*flows["payer"], *flows["payee"]]))
    paid, received = (dict(flows.group_by(side).agg(pl.sum("usd_bn")).rows()) for side in ("payer", "payee"))
    rows = []
    for kind in sorted(kinds, key=lambda kind: -received.get(kind, 0.0)):
        gets, gives = received.get(kind, 0.0), paid.get(kind, 0.0)
        rows.append([kind, *map(_billion, (gets, gives, gets - gives))])
    moved = float(flows["usd_bn"].sum())
    rows.append(["all", _billion(moved), _billion(moved), _billion(0.0)])
    head = ["kind of agent", "receives", "pays", "change of its cash"]
    seeds = seed_range(weeks.runs.filter(pl.col("arm") == arm)["seed"].sort().to_list())
    yield Table(head, rows, f"Money by kind of agent, arm {arm}, whole run, USD billion, mean of {seeds}", numbers=3)
    every = [[payer, payee, why, _billion(usd)] for payer, payee, why, usd in flows.rows()]
    yield Table(["payer", "payee", "for", "USD billion"], every, "", f"All {len(every)} flows of arm {arm}", numbers=1)


def _billion(usd_bn: float) -> str:
    return number(usd_bn, 4)


# ------------------------------------------------------------------------------------------------ again


def _again(results: Results) -> Iterator[Block]:
    """Command, versions, run ids."""
    manifest = results.manifest
    command = manifest.get("command")
    if command:
        yield Code(str(command))
    yield Paragraph(
        (
            "The folder of this report holds what was run: ",
            Mono("scenario.toml"),
            ", ",
            Mono("design.toml"),
            "; with which versions: ",
            Mono("manifest.json"),
            "; and every number: ",
            Mono("summary.csv"),
            ", ",
            Mono("effects.csv"),
            ", ",
            Mono("outcomes.parquet"),
            ". The same seeds and versions give the same numbers to the last bit. To write this report anew from the "
            "tables, without a run: ",
            Mono("neocloud report FOLDER"),
            ".",
        )
    )
    yield Table(["what", "which"], list(_versions(manifest)), "Versions")
    rows: list[list[Text]] = [
        [row["arm"], str(row["seed"]), Mono(row["id"]), row["status"]] for row in results.runs.iter_rows(named=True)
    ]
    yield Table(["arm", "seed", "run", "status"], rows, "", f"All {len(rows)} runs by arm and seed")


def _versions(manifest: Mapping[str, Any]) -> Iterator[list[Text]]:
    yield ["started", str(manifest.get("started", "-"))]
    if "seconds" in manifest:
        yield ["took", f"{manifest['seconds']:,.0f} seconds"]
    yield ["Python", str(manifest.get("python", "-"))]
    for name, version in manifest.get("packages", {}).items():
        yield [name, str(version)]
    yield ["sources, SHA-256", Mono(str(manifest.get("sources", "-")))]
    for digest in dict.fromkeys(manifest.get("data", {}).values()):
        yield ["data tables, SHA-256", Mono(str(digest))]


# ------------------------------------------------------------------------------------------------ glossary


def _glossary(results: Results, numbers: Numbers, sections: Sequence[Section]) -> list[Block]:
    """Terms that the report uses, and the outcomes of its tables."""
    names = dict.fromkeys(metric.partition("[")[0] for screen in _screens(numbers) for metric in screen.metrics)
    meanings = {name: meaning(name) for name in names if name in OUTCOMES}
    if POSTED in names and numbers.contrasts:
        meanings[PASS_THROUGH] = MEANING
    measured = [(f"{in_words(name).removeprefix('the ')} ({name})", told) for name, told in meanings.items()]
    terms = terms_in([results.plan.question, *_texts(sections)])
    return [Terms(terms), Paragraph("Outcomes of the tables:"), Terms(measured)]


def _texts(sections: Sequence[Section]) -> Iterator[str]:
    """All that is read in a report, folded tables left out."""
    for section in sections:
        yield section.title
        for block in section.blocks:
            if isinstance(block, Paragraph):
                yield plain(block.text)
            elif isinstance(block, Bullets):
                yield from map(plain, block.items)
            elif isinstance(block, Picture):
                yield block.caption
            elif isinstance(block, Table) and not block.folded:
                yield from (block.caption, *block.head, *(plain(cell) for row in block.rows for cell in row))
