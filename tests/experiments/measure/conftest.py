"""Fixtures of the measuring tests; the helper is loaded by path, since test folders are no packages."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def made() -> ModuleType:
    """The module that fabricates recorded tables."""
    spec = spec_from_file_location("fabricate", Path(__file__).with_name("fabricate.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
