import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from experiments.engine import runner
from experiments.engine.errors import ScenarioError
from experiments.engine.runner import RunResult, execute
from experiments.engine.store import DEFAULT_TABLES, Store
from experiments.measure import outcomes as measured
from experiments.measure import weekly

OK = {"status": "ok", "message": ""}
FAILED = RunResult("failed", "ValueError: no", {}, "Traceback ...")


@pytest.fixture
def store(tmp_path, small_plan, fake_market) -> Store:
    return Store(tmp_path / "out", small_plan, measured.OUTCOME_SCHEMA)


def result_of(spec) -> RunResult:
    return execute(spec, runner.simulate, measured.outcomes, weekly.derived)


def filled(store: Store) -> list:
    specs = store.plan.runs()
    for spec in specs:
        store.parts.save(spec.id, result_of(spec))
    return specs


def damaged(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "changed":
        path.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["truncated", "empty", "changed", "missing"])
@pytest.mark.parametrize("file", ["run.json", "outcomes.parquet", "market_week.parquet"])
def test_a_damaged_part_is_found_and_taken_away(store, file, how):
    with store.open():
        specs = filled(store)
        if file == "run.json" and how == "changed":
            (store.parts.folder / specs[1].id / file).write_text("{}")
        else:
            damaged(store.parts.folder / specs[1].id / file, how)
        assert store.finished().keys() == {spec.id for spec in specs} - {specs[1].id}
        assert not (store.parts.folder / specs[1].id).exists()


def test_what_was_being_written_when_a_start_ended_is_taken_away(store):
    with store.open():
        (store.parts.folder / ".tmp-half-1").mkdir()
        (store.out / ".tmp-runs.parquet").touch()
    with store.open():
        assert not list(store.parts.folder.iterdir())
        assert not (store.out / ".tmp-runs.parquet").exists()


def test_tables_stand_in_the_order_of_the_plan_whatever_finished_first(store):
    with store.open():
        specs = store.plan.runs()
        for spec in reversed(specs):
            store.parts.save(spec.id, result_of(spec))
        store.compact({spec.id: OK for spec in specs})
    for table in ("outcomes", "market_week"):
        assert store.read(table)["run"].unique(maintain_order=True).to_list() == [spec.id for spec in specs]
    assert store.read("runs").select("arm", "seed").rows() == [(spec.arm, spec.seed) for spec in store.plan.rows()]


def test_tables_have_the_declared_types_even_where_all_is_null(store):
    with store.open():
        specs = filled(store)
        store.compact({spec.id: OK for spec in specs})
    for table, schema in store.schemas.items():
        assert dict(store.read(table).schema) == {"run": pl.String(), **schema}


def test_an_experiment_of_failed_runs_only_has_empty_tables_of_the_declared_types(store):
    with store.open():
        specs = store.plan.runs()
        for spec in specs:
            store.parts.save(spec.id, FAILED)
        statuses = store.finished()
        store.compact(statuses)
    assert [statuses[spec.id]["message"] for spec in specs] == ["ValueError: no"] * 4
    assert store.read("outcomes").height == 0
    assert dict(store.read("outcomes").schema) == {"run": pl.String(), **measured.OUTCOME_SCHEMA}


def test_varied_parameters_are_columns_of_the_runs(store):
    with store.open():
        specs = filled(store)
        store.compact({spec.id: OK for spec in specs})
    assert store.read("runs")["developer_cloud.cap_gpus"].to_list() == [0.0, 0.0, 1000.0, 1000.0]


def test_parts_go_only_once_the_tables_are_complete(store):
    with store.open():
        specs = filled(store)
        store.compact({spec.id: OK for spec in specs})
        assert store.parts.folder.exists()
        assert not store.complete()
        store.finish({}, keep_parts=False)
        assert not store.parts.folder.exists()
        assert store.complete()


def test_a_damaged_table_of_a_complete_folder_is_noticed(store):
    with store.open():
        specs = filled(store)
        store.compact({spec.id: OK for spec in specs})
        store.finish({}, keep_parts=False)
    damaged(store.out / "outcomes.parquet", "truncated")
    assert not store.complete()


def test_a_folder_with_another_experiment_is_refused_with_the_keys_that_differ(store):
    with store.open():
        pass
    plan = store.plan
    changed = replace(plan, base=plan.base.set("pricing.anchor_weight", 0.5), seeds=(1, 2, 3))
    other = Store(store.out, changed, measured.OUTCOME_SCHEMA)
    with pytest.raises(ScenarioError, match="another experiment") as caught, other.open():
        pass
    assert "pricing.anchor_weight: 0.8 -> 0.5" in str(caught.value)
    assert "seeds: [1, 2] -> [1, 2, 3]" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_with_something_else_is_refused_and_left_alone(store):
    store.out.mkdir()
    (store.out / "thesis.txt").write_text("mine")
    with pytest.raises(ScenarioError, match="not empty"), store.open():
        pass
    assert [path.name for path in store.out.iterdir()] == ["thesis.txt"]


def test_a_folder_that_cannot_be_made_is_refused_and_nothing_is_left(tmp_path, small_plan):
    (tmp_path / "file").touch()
    store = Store(tmp_path / "file" / "out", small_plan, measured.OUTCOME_SCHEMA)
    with pytest.raises(ScenarioError, match="cannot write to"), store.open():
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_second_start_is_refused_and_told_who_holds_the_folder(store):
    with store.open():
        second = Store(store.out, store.plan, measured.OUTCOME_SCHEMA)
        with pytest.raises(ScenarioError, match=f"in use by process {os.getpid()}"), second.open():
            pass
    with store.open():
        pass


def test_the_lock_of_a_killed_process_does_not_hold(store):
    script = f"""
import os, signal
from pathlib import Path
from experiments.engine.lock import claim
claim(Path({str(store.out / ".lock")!r}))
os.kill(os.getpid(), signal.SIGKILL)
"""
    store.out.mkdir()
    subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
    assert (store.out / ".lock").read_text().startswith("process ")
    with store.open():
        pass


def test_the_manifest_has_the_checksums_of_the_tables(store):
    with store.open():
        specs = filled(store)
        store.compact({spec.id: OK for spec in specs})
        store.finish({"command": "x"}, keep_parts=False)
    manifest = json.loads((store.out / "manifest.json").read_text())
    assert manifest["command"] == "x"
    assert set(manifest["tables"]) == {f"{name}.parquet" for name in ("runs", "outcomes", *DEFAULT_TABLES)}
