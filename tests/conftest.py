"""What all tests share: the settings of random search (``ci`` tries the same examples every time), options."""

import pytest
from hypothesis import HealthCheck, Phase, settings

_SLOW_WORLDS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=_SLOW_WORLDS,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the tests of known answers (``tests/theory``); pytest takes options from this level alone."""
    group = parser.getgroup("known answers")
    group.addoption("--theory-cases", metavar="FILE", help="another table of the schema of theory_cases.csv")
    group.addoption("--theory-closeness", action="store_true", help="print how close the answers came, by family")
