import re
import shlex
from pathlib import Path

import pytest

from experiments import cli
from experiments.scenario import Scenario

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[str]:
    return [line.split("#")[0].strip() for line in README.splitlines() if line.startswith("    neocloud ")]


def test_the_two_commands_stand_there():
    install = "python3 -m venv .venv && .venv/bin/pip install -q -e"
    assert f"    {install} . && .venv/bin/neocloud experiment\n" in README
    assert f"    {install} '.[test]' && .venv/bin/pytest\n" in README


def test_its_links_lead_to_files_of_the_project():
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", README) if "://" not in link]
    assert len(links) > 6
    assert [link for link in links if not (Path(__file__).parents[2] / link).is_file()] == []


def test_its_python_runs(fake_market, no_figures, in_folder, capsys):
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    assert "price_mean" in capsys.readouterr().out


def test_its_scenario_is_one(in_folder):
    (text,) = blocks("toml")
    Path("mine.toml").write_text(text, encoding="utf-8")
    assert Scenario.load("mine.toml").developer_cloud.price_usd_per_gpu_hour == 1.49


@pytest.mark.parametrize("command", commands())
def test_its_commands_run(fake_market, no_figures, in_folder, command):
    quick = ["--weeks", "2", "--seeds", "1", "--workers", "1"]
    name, *arguments = shlex.split(command)[1:]
    if name in ("report", "results"):  # of the experiment before it
        assert cli.main(["experiment", *quick, "--out", arguments[0]]) == 0
    runs_something = name in ("experiment", "run", "compare", "validate", "sweep")
    few = ["--weeks", "2", "--seeds", "2", "--most", "4", "--workers", "1"] if name == "until" else []
    assert cli.main([name, *arguments, *(quick if runs_something else few)]) == 0


def test_its_files_are_those_of_an_experiment(fake_market, in_folder):
    assert cli.main(["experiment", "--weeks", "2", "--seeds", "1", "--workers", "1", "--out", "here"]) == 0
    named = re.findall(
        r"`([\w/]+\.(?:csv|parquet|toml|json|png|html|md))`", README.split("| file |")[1].split("Stop it")[0]
    )
    assert {"report.html", "figures/price_paths.png", "trend_week.parquet"} <= set(named)
    for name in named:
        assert Path("here", name).exists(), name
