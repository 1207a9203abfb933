"""The table of known answers: what it refuses, that every family in it is answered for, and a second table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.theory import second_method
from tests.theory.table import COLUMNS, OTHER_VALUES, SHIPPED, Case, CaseError, Known, read_cases, unknown_families

HERE = Path(__file__).parent
HEADER = ",".join(COLUMNS)
ROW = "annuity,annuity/one,{inputs},payment,USD,{value},0.1,source,method"


def answered() -> set[str]:
    """Families that some test of this folder names."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py") if path != Path(__file__))
    return {
        name for names in re.findall(r"@family\((.*?)\)", text, re.DOTALL) for name in re.findall(r'"(\w+)"', names)
    }


def test_every_family_of_the_table_is_answered_for(table: dict[str, list[Case]]) -> None:
    if unknown := unknown_families(table, answered()):
        pytest.fail("\n".join(unknown), pytrace=False)


def test_an_unknown_family_is_named_with_the_nearest_known_one() -> None:
    assert unknown_families({"erlang_bb": []}, answered()) == ["unknown family 'erlang_bb'; nearest: 'erlang_b'"]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["family,case_id"], "no column inputs, quantity, unit, value, tolerance"),
        ([HEADER, ROW.format(inputs="{", value="1")], "line 2, column inputs: no JSON"),
        ([HEADER, ROW.format(inputs="{}", value="one")], "line 2, column value: 'one'; allowed: a finite number"),
        ([HEADER, *[ROW.format(inputs="{}", value="1")] * 2], "line 3: quantity 'payment'"),
        ([HEADER, ROW.format(inputs="{}", value="1"), ROW.format(inputs='"{""a"": 1}"', value="1")], "line 3: case"),
    ],
)
def test_a_broken_table_is_refused_in_one_line(lines: list[str], complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(CaseError, match=re.escape(complaint)) as caught:
        read_cases(path)
    assert "\n" not in str(caught.value)


def test_a_missing_table_and_a_missing_input_are_named() -> None:
    with pytest.raises(CaseError, match=r"nowhere\.csv: No such file"):
        read_cases(Path("nowhere.csv"))
    with pytest.raises(CaseError, match="no input 'b'; there are a"):
        Case("family", "case", {"a": 1})["b"]


def test_an_answer_outside_its_tolerance_or_left_out_fails() -> None:
    case = Case("family", "case", {}, {"price": Known(1.0, 0.1), "share": Known(0.5, 0.01)})
    case.agree({"price": 1.05, "share": 0.5})
    case.agree({"price": 1.05}, partly=True)
    with pytest.raises(AssertionError, match=r"price is 1\.2, known 1 ± 0\.1"):
        case.agree({"price": 1.2}, partly=True)
    with pytest.raises(AssertionError, match="nothing is measured for share"):
        case.agree({"price": 1.0})
    with pytest.raises(AssertionError, match="price is nan"):
        case.agree({"price": float("nan")}, partly=True)


def test_the_second_table_is_what_its_script_gives(tmp_path: Path) -> None:
    path = tmp_path / "other_values.csv"
    path.write_text(second_method.table(), encoding="utf-8")
    fresh, stored = read_cases(path), read_cases(OTHER_VALUES)
    assert fresh.keys() == stored.keys() == read_cases(SHIPPED).keys()
    for family, cases in fresh.items():
        for one, other in zip(cases, stored[family], strict=True):
            assert (one.name, one.inputs, one.known.keys()) == (other.name, other.inputs, other.known.keys())
            for name, known in one.known.items():
                assert np.isclose(known.value, other.known[name].value, rtol=1e-7, atol=1e-9), (one.name, name)


@pytest.mark.soak
def test_all_families_agree_with_the_second_table_too() -> None:
    command = [sys.executable, "-m", "pytest", str(HERE), "-n", "0", "-q", "-x", "--theory-cases", str(OTHER_VALUES)]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parents[1], env=environment, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
