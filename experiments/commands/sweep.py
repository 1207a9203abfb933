"""Commands that choose what to run: ``sweep`` over many arms, ``until`` over as many seeds as a width needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from experiments.commands.results import metric_and_width, print_plain

__all__ = ["sweep_commands"]

_DEFAULT = "baseline-2025"

CarryOut = Callable[[Callable[..., Any], tuple[str, ...], dict[str, Any]], int]


def sweep_commands(common: Callable[[Any], Any], carry_out: CarryOut) -> tuple[click.Command, ...]:
    """The commands.

    Args:
        common: adds the options of every command that runs something.
        carry_out: calls a function of the API with options, prints what it gives and returns the exit code.
    """

    @click.command("sweep", help=_SWEEP)
    @click.argument("scenario", default=_DEFAULT, metavar="[SCENARIO]")
    @click.argument("ranges", nargs=-1, metavar="[KEY=LO:HI]...")
    @click.option("--grid", multiple=True, metavar="KEY=A,B|LO:HI:STEP", help="A lever and its values; repeatable.")
    @click.option("--sample", default="", metavar="KIND:N", help="lhs:N, sobol:N or morris:N over the ranges given.")
    @click.option("--table", "points", type=click.Path(path_type=Path), help="CSV file: a column a key, a row an arm.")
    @click.option("--sample-seed", type=click.IntRange(min=0), default=0, help="Of the sample, not of the runs.")
    @click.option("--own-seeds", is_flag=True, help="No two arms share a seed (independent luck).")
    @click.option("--show", multiple=True, metavar="OUTCOME", help="Outcome to show, like price_cv[H100]; repeatable.")
    @click.option("--dry-run", is_flag=True, help="Time one run, say what all will take, write nothing.")
    @common
    def sweep(scenario: str, dry_run: bool, points: Path | None, **options: Any) -> int:
        from experiments import sweeps

        if options["sample"] and _is_range(scenario):
            scenario, options["ranges"] = _DEFAULT, (scenario, *options["ranges"])
        options["table"] = points
        return _estimated(scenario, options) if dry_run else carry_out(sweeps.sweep, (scenario,), options)

    @click.command("until", help=_UNTIL)
    @click.argument("target", metavar="OUTCOME=HALF_WIDTH")
    @click.argument("base", default=_DEFAULT)
    @click.argument("variant", required=False)
    @click.option("--most", type=click.IntRange(min=2), default=256, help="Seeds after which to stop in any case.")
    @common
    def until(target: str, base: str, variant: str | None, most: int, **options: Any) -> None:
        from dataclasses import asdict

        from experiments.until import precise

        metric, wanted = metric_and_width(target)
        form = options["form"]
        minimum = {"minimum": options["seeds"]} if options["seeds"] else {}
        for name in ("form", "quiet", "tables", "seeds"):
            del options[name]
        found = precise(metric, wanted, base, variant, maximum=most, **minimum, **options)
        if form == "json":
            print_plain(asdict(found))
        else:
            for line in found.lines():
                click.echo(line)

    return sweep, until


_SWEEP = """Run a scenario at every point of a grid, a sample or a table.

\b
neocloud sweep --grid developer_cloud.cap_gpus=0,1000,10000 --seeds 16
neocloud sweep baseline-2025 --grid lepton.take_rate=0:0.2:0.05 --grid lepton.mode=off,pressed
neocloud sweep --grid "weeks,demand.regime=26|true,52|false"        (keys moved together)
neocloud sweep --sample lhs:64 lepton.take_rate=0:0.2 capacity.lead_weeks
"""


_UNTIL = """Add seeds until the interval of an outcome is narrow enough, and repeat with as many fresh ones.

\b
neocloud until amd_hour_share=0.002 baseline-2025
neocloud until amd_hour_share=0.001 baseline-2025 baseline-2025+developer_cloud.cap_gpus=0 --most 128

The outcome is that of the first year; with VARIANT its difference from BASE. --seeds is the least number (16).
"""


def _is_range(word: str) -> bool:
    """Whether a word in the place of a scenario is a key, with or without its range."""
    return "." in word.partition("=")[0] and not word.endswith(".toml") and not set("/+") & set(word)


def _estimated(scenario: str, options: dict[str, Any]) -> int:
    """Print what a sweep will take."""
    from experiments import estimate, sweeps
    from experiments.engine.runner import TABLES
    from experiments.engine.store import DEFAULT_TABLES

    tables = DEFAULT_TABLES if options["tables"] == "few" else tuple(TABLES)
    points = sweeps.points_of(**{name: options[name] for name in ("grid", "sample", "ranges", "table", "sample_seed")})
    changes = {name: options[name] for name in ("assignments", "weeks", "show", "seeds", "own_seeds")}
    plan = sweeps.planned(scenario, points, sampled=bool(options["sample"]), first_seed=options["seed"], **changes)
    for line in estimate.estimate(plan, workers=options["workers"], tables=tables).lines():
        click.echo(line)
    return 0
