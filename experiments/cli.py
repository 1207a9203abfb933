"""The command line: ``neocloud``. It parses, calls the functions of `experiments.api` and prints.

Results go to standard output, progress and warnings to standard error. Exit codes: 0 done; 1 the program failed;
2 bad input (one line); 3 finished, but some runs failed; 130 interrupted. Heavy modules are imported inside commands.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from experiments.commands.credit import credit_commands
from experiments.commands.data import data_group
from experiments.commands.options import Suggesting, format_option, set_option
from experiments.commands.results import results_command
from experiments.commands.scenario import scenario_group
from experiments.commands.study import study_commands
from experiments.commands.sweep import sweep_commands
from experiments.commands.validate import validate_command
from experiments.engine.errors import ScenarioError, StoppedError, StoreError

if TYPE_CHECKING:
    import polars as pl

    from experiments.api import Results
    from experiments.engine.drive import Progress

__all__ = ["main"]

_FAILED, _BAD_INPUT, _SOME_FAILED, _INTERRUPTED = 1, 2, 3, 130
_LARGE_TABLES = ("seller_week", "segment_week", "book_week", "flow_week", "loan_week", "default_week")

Command = TypeVar("Command", bound=Callable[..., Any])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _one_thread()
    try:
        with _termination_interrupts():
            code = _neocloud.main(args=given, prog_name="neocloud", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Abort:
        _complain(f"interrupted; what is finished is kept. To go on: {shlex.join(['neocloud', *given])}")
        return _INTERRUPTED
    except click.ClickException as error:
        _complain(f"Error: {_one_line(error)}")
        return _BAD_INPUT
    except ScenarioError as error:
        _complain(f"Error: {error}")
        return _BAD_INPUT
    except StoppedError as error:
        _complain(f"{error}. To go on: {shlex.join(['neocloud', *given])} --retry-failed")
        return _SOME_FAILED
    except StoreError as error:
        _complain(f"Error: {error}")
        return _FAILED


def _complain(line: str) -> None:
    click.echo(" ".join(line.split()), err=True)


def _one_line(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    place = f"{context.command_path}: " if context is not None else ""
    return place + error.format_message()


def _one_thread() -> None:
    """One thread for numerical libraries, set before they are imported: runs sum in one order everywhere."""
    from experiments.engine.threads import ONE_THREAD

    for name, number in ONE_THREAD.items():
        os.environ.setdefault(name, number)


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Treat a polite request to end (SIGTERM) like Ctrl-C."""
    try:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# ------------------------------------------------------------------------------------------------ options


_uncertainty_option = click.option(
    "--uncertainty",
    type=click.IntRange(min=1),
    metavar="N",
    help="Repeat under N draws of what nobody knows: a range beside each interval.",
)


def _common(command: Command) -> Command:
    """Options of every command that runs something."""
    options = [
        set_option,
        click.option("--seeds", type=click.IntRange(min=1), help="Number of seeds per arm."),
        click.option("--seed", type=click.IntRange(min=0, max=2**62), help="First seed (default 1)."),
        click.option("--weeks", type=click.IntRange(min=1), help="Weeks to simulate."),
        click.option("--out", type=click.Path(path_type=Path), help="Folder of the results (default out/NAME)."),
        click.option("--workers", type=click.IntRange(min=1), help="Processes (default: one per core)."),
        click.option("--executor", type=click.Choice(["local", "dask"]), default="local", help="Where runs are done."),
        click.option("--scheduler", default="", metavar="ADDRESS", help="Dask cluster, tcp://host:port."),
        click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds that a run may take."),
        click.option("--fail-fast", is_flag=True, help="Stop at the first run that does not end well."),
        click.option("--retry-failed", is_flag=True, help="Run again what did not end well before."),
        click.option("--tables", type=click.Choice(["few", "all"]), default="few", help="Recorded tables to keep."),
        format_option,
        click.option("--quiet", is_flag=True, help="No progress."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    """Print the version and end."""
    if asked:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"neocloud {version('neocloud-market')}")
        except PackageNotFoundError:
            click.echo("neocloud (from a folder, not installed)")
        ctx.exit()


@click.group(cls=Suggesting, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def _neocloud() -> None:
    """Simulate the GPU rental market and measure what changes it.

    `neocloud experiment` runs the main experiment: what an offer of AMD's Developer Cloud at 1.99 USD per GPU-hour
    does to rental prices, sellers' margins and AMD's share.
    """


# ------------------------------------------------------------------------------------------------ experiments


@_neocloud.command("experiment")
@click.argument("design", default="developer-cloud", metavar="[NAME or FILE]")
@click.option("--list", "listed", is_flag=True, help="Show the built-in experiments and their questions.")
@_uncertainty_option
@_common
def _experiment(design: str, listed: bool, **options: Any) -> int:
    """Carry out an experiment (default: developer-cloud): all arms, all seeds, effects with intervals."""
    if listed:
        return _list_experiments(options["form"])
    from experiments import api

    return _carried_out(api.experiment, (design,), options)


def _list_experiments(form: str) -> int:
    from experiments.commands.options import print_rows
    from experiments.design import Design, design_names

    designs = [Design.load(name) for name in design_names()]
    rows = [
        {"name": each.name, "arms": len(each.arms), "seeds": each.seeds, "question": each.question} for each in designs
    ]
    print_rows(rows, form)
    return 0


@_neocloud.command("run")
@click.argument("scenario", default="baseline-2025", metavar="[SCENARIO]")
@_common
def _run(scenario: str, **options: Any) -> int:
    """Run one scenario: a name, a file or NAME+key=value."""
    from experiments import api

    if options["seeds"] is None:
        options["seeds"] = 1
    return _carried_out(api.run, (scenario,), options)


@_neocloud.command("compare")
@click.argument("base")
@click.argument("variants", nargs=-1, required=True, metavar="VARIANT...")
@_uncertainty_option
@_common
def _compare(base: str, variants: tuple[str, ...], **options: Any) -> int:
    """Run scenarios with the same seeds and print each VARIANT minus BASE."""
    from experiments import api

    return _carried_out(api.compare, (base, *variants), options)


def _tables(asked: str) -> dict[str, Sequence[str]]:
    from experiments.engine.store import DEFAULT_TABLES

    return {"tables": (*DEFAULT_TABLES, *_LARGE_TABLES)} if asked == "all" else {}


@_neocloud.command("report")
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
def _report(folder: Path) -> int:
    """Write tables, figures and report of a results folder anew; nothing is run."""
    from experiments import api

    results = api.report(folder, notice=_complain)
    click.echo(f"Report: {results.out / 'report.html'}")
    if results.missing:
        _complain(f"unfinished: {results.go_on()}")
    return _SOME_FAILED if results.missing else _after(results)


def _carried_out(
    function: Callable[..., Any],
    arguments: tuple[str | None, ...],
    options: dict[str, Any],
    printed: Callable[[Any, str], None] | None = None,
) -> int:
    """Call a function of the API with the options of the command line, print its results, return the exit code."""
    form, quiet, tables = options.pop("form"), options.pop("quiet"), options.pop("tables", "few")
    command = shlex.join(["neocloud", *sys.argv[1:]])
    with _progress(quiet) as progress:
        results = function(
            *arguments, **options, **_tables(tables), progress=progress, notice=_complain, command=command
        )
    (printed or _print)(results, form)
    return _after(results)


def _after(results: Results) -> int:
    """Exit code of finished results; failures are told."""
    if results.failed:
        total = results.runs.height
        _complain(f"{results.failed} of {total} runs failed: see status and message in {results.out}/runs.parquet")
        return _SOME_FAILED
    return 0


@contextmanager
def _progress(quiet: bool) -> Iterator[Progress | None]:
    """A bar on standard error, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("runs", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print(results: Results, form: str) -> None:
    if form == "json":
        click.echo(json.dumps(results.as_dict(), indent=1, allow_nan=False))
    elif form == "csv":
        _print_csv(results.summaries())
        click.echo()
        _print_csv(results.differences())
    else:
        from experiments.show import response, screen

        (response if response.applies(results) else screen).show(results)


def _print_csv(pieces: Iterable[pl.DataFrame]) -> None:
    """Print frames of the same columns as one table, holding one at a time."""
    for at, piece in enumerate(pieces):
        click.echo(piece.write_csv(include_header=at == 0), nl=False)


_neocloud.add_command(validate_command(_common, _carried_out))


# ------------------------------------------------------------------------------------------------ scenarios and data

_neocloud.add_command(scenario_group)
_neocloud.add_command(data_group)
_neocloud.add_command(results_command)
for command in (*study_commands, *credit_commands, *sweep_commands(_common, _carried_out)):
    _neocloud.add_command(command)
