"""What all tests share: the settings of random search. ``ci`` tries the same examples every time."""

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
