"""Keyed draws: the same bits as a plain-integer reference, uniform, and independent in every key."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from market import randomness
from market.randomness import (
    Purpose,
    agent_key,
    agent_keys,
    bits,
    exponential,
    gumbel,
    normal,
    pair_key,
    tenant_keys,
    uniform,
)

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
SMALLEST_P = 1e-4  # of a whole family of tests, shared out by Bonferroni
FIELDS = ("seed", "purpose", "week", "agent_key", "item_key", "draw")
SIDE = 1 << 12
NAMES = [f"seller {number}" for number in range(SIDE)]
ANY_INTEGER = st.integers(-(2**63), 2**64 - 1)


def reference_chain(state: int, *fields: int) -> int:
    """The documented rule with nothing but Python integers."""
    for field in fields:
        x = (state + (field + 1) * GOLDEN) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        state = x ^ (x >> 31)
    return state


def reference_bits(seed: int, purpose: int, week: int, agent: int, item: int = 0, draw: int = 0) -> int:
    return reference_chain(0x243F6A8885A308D3, seed, purpose, week, draw, agent, item)


def line(field: str, length: int, start: int = 0, **others: int) -> np.ndarray:
    """Uniform draws while one key counts up and the others stay."""
    keys = {"seed": 7, "purpose": 2, "week": 11, "agent_key": 5, "item_key": 3, "draw": 0} | others
    if field in ("seed", "purpose"):
        return np.array([float(uniform(**keys | {field: start + step})) for step in range(length)])
    return uniform(**keys | {field: np.arange(start, start + length)})


def streams() -> Iterator[tuple[str, np.ndarray]]:
    """Lines of draws: each key in turn counts up, at several values of another key; and the keys that models use."""
    for field in FIELDS:
        other = "agent_key" if field == "item_key" else "item_key"
        for value in (0, 1, 2**32, 2**63):
            yield f"{field}, {other} {value}", line(field, SIDE, **{other: value})
    for week in (-70, 0, 1, 156):
        yield f"named agents, week {week}", uniform(0, Purpose.REVISION, week, agent_keys(NAMES))
        yield f"tenants, week {week}", uniform(0, Purpose.REVIEW, week, tenant_keys(2, week, np.arange(SIDE)))


def below(p_values: dict[str, float]) -> dict[str, float]:
    """Tests that fail at the family's level."""
    return {name: p for name, p in p_values.items() if not p > SMALLEST_P / len(p_values)}


def chi_square_p(counts: np.ndarray) -> float:
    return float(stats.chisquare(counts.ravel()).pvalue)


# --- the rule ------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(ANY_INTEGER, st.sampled_from(Purpose), ANY_INTEGER, ANY_INTEGER, ANY_INTEGER, st.integers(0, 2**40))
def test_single_numbers_give_the_bits_of_the_plain_integer_reference(seed, purpose, week, agent, item, draw):
    assert int(bits(seed, purpose, week, agent, item, draw)) == reference_bits(seed, purpose, week, agent, item, draw)


@settings(deadline=None)
@given(st.data())
def test_arrays_give_the_bits_of_the_plain_integer_reference(data):
    def keys(smallest: int, largest: int) -> list[int]:
        return data.draw(st.lists(st.integers(smallest, largest), min_size=1, max_size=4))

    weeks, agents, items, draws = keys(-(2**63), 2**63 - 1), keys(0, MASK), keys(0, MASK), keys(-5, 5)
    found = bits(
        9,
        Purpose.GUMBEL,
        np.array(weeks, dtype=np.int64)[:, None, None, None],
        np.array(agents, dtype=np.uint64)[:, None, None],
        np.array(items, dtype=np.uint64)[:, None],
        np.array(draws, dtype=np.int16),
    )
    assert found.dtype == np.uint64
    grid = itertools.product(weeks, agents, items, draws)
    assert [int(word) for word in found.ravel()] == [
        reference_bits(9, Purpose.GUMBEL, week, agent, item, draw) for week, agent, item, draw in grid
    ]


@pytest.mark.parametrize("varying", list(itertools.product((False, True), repeat=4)))
def test_a_number_and_an_array_of_it_give_the_same_bits(varying):
    keys = [-3, 2**63 - 5, 17, 4]
    mixed = [np.array([key]) if vary else key for key, vary in zip(keys, varying, strict=True)]
    assert int(bits(1, 2, *mixed).item()) == reference_bits(1, 2, *keys)


def test_the_bits_of_one_draw_never_change():
    """Written down once: results of all versions depend on it."""
    assert int(bits(1, Purpose.GUMBEL, 3, agent_key("CoreWeave"), agent_key("H100"))) == 0x9B2DCF77C7FF809C
    assert agent_key("CoreWeave") == 0x5D33E724634C3CB6


def test_purposes_have_stable_and_distinct_numbers():
    assert [purpose.value for purpose in Purpose] == list(range(1, len(Purpose) + 1))
    assert (Purpose.TASTE, Purpose.GUMBEL, Purpose.PRIORITY, Purpose.SAMPLE) == (1, 2, 4, 31)


def test_draws_do_not_depend_on_who_else_draws():
    alone = uniform(3, Purpose.SEARCH, 8, agent_key("Lambda"), 6)
    among = uniform(3, Purpose.SEARCH, 8, agent_keys(["Crusoe", "Lambda", "Vultr"])[:, None], np.arange(9))
    assert float(alone) == among[1, 6]


def test_arguments_are_not_written_to():
    agents, items = np.arange(5, dtype=np.uint64), np.arange(3)
    agents.flags.writeable = items.flags.writeable = False
    uniform(1, 1, 1, agents[:, None], items)
    assert agents.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("shape", [(), (4,), (4, 3), (0,)])
def test_results_have_the_broadcast_shape(shape):
    for law in (bits, uniform, normal, gumbel, exponential):
        assert law(1, 1, 1, np.zeros(shape, dtype=np.uint64)).shape == shape


@pytest.mark.parametrize("seed", [1.0, np.float64(2), "1", None, True, np.bool_(True), [1]])
def test_a_seed_that_is_no_integer_is_refused(seed):
    with pytest.raises(TypeError, match="seed must be an integer"):
        uniform(seed, Purpose.TASTE, 0, 1)


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_of_more_than_64_bits_is_refused(seed):
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        uniform(seed, Purpose.TASTE, 0, 1)


@pytest.mark.parametrize("key", [1.5, np.array([1.0, 2.0]), np.array([True]), True, "key", np.array(1.0)])
def test_a_key_that_is_no_integer_is_refused(key):
    with pytest.raises(TypeError, match="integer"):
        uniform(1, Purpose.TASTE, 0, key)


# --- the laws ------------------------------------------------------------------------------------------------------


def test_the_extreme_bits_stay_strictly_inside_the_unit_interval():
    low, high = randomness._unit(np.array([0, MASK], dtype=np.uint64))
    assert (low, high) == (2.0**-53, 1 - 2.0**-53)


@pytest.mark.parametrize(
    ("law", "distribution"),
    [(uniform, stats.uniform), (normal, stats.norm), (gumbel, stats.gumbel_r), (exponential, stats.expon)],
)
def test_draws_follow_their_law(law, distribution):
    draws = law(5, Purpose.TASTE, 0, np.arange(20_000))
    assert stats.kstest(draws, distribution.cdf).pvalue > SMALLEST_P


@pytest.mark.parametrize("law", [normal, gumbel, exponential])
def test_every_law_increases_in_the_uniform_draw(law):
    agents = np.arange(500)
    order = np.argsort(uniform(5, Purpose.TASTE, 0, agents))
    assert (np.diff(law(5, Purpose.TASTE, 0, agents)[order]) > 0).all()


# --- uniformity and independence -----------------------------------------------------------------------------------


def test_bins_fill_evenly_along_every_key():
    p_values = {name: chi_square_p(np.histogram(draws, 64, (0, 1))[0]) for name, draws in streams()}
    assert len(p_values) >= 32
    assert not below(p_values)


def test_low_bits_fill_evenly_along_every_key():
    p_values = {}
    for field in ("week", "agent_key", "item_key", "draw"):
        keys = {"week": 0, "agent_key": 0, "item_key": 0, "draw": 0} | {field: np.arange(1 << 14)}
        words = bits(1, Purpose.TASTE, **keys)
        for shift in (0, 8, 29, 56):
            p_values[f"{field} {shift}"] = chi_square_p(
                np.bincount((words >> np.uint64(shift)) & np.uint64(255), minlength=256)
            )
    assert not below(p_values)


def test_pairs_of_neighbours_fill_the_square_evenly():
    p_values = {}
    for name, draws in streams():
        for lag in (1, 2, 7):
            counts = np.histogram2d(draws[:-lag:2], draws[lag::2][: len(draws[:-lag:2])], 8, ((0, 1), (0, 1)))[0]
            p_values[f"{name}, lag {lag}"] = chi_square_p(counts)
    assert not below(p_values)


def test_neighbours_are_not_correlated_along_any_key():
    p_values = {
        f"{name}, lag {lag}": float(stats.pearsonr(draws[:-lag], draws[lag:]).pvalue)
        for name, draws in streams()
        for lag in (1, 2, 52)
    }
    assert not below(p_values)


def test_streams_are_not_correlated_with_one_another():
    table = np.array([draws for _, draws in streams()])
    correlation = np.corrcoef(table)[np.triu_indices(len(table), 1)]
    limit = stats.norm.isf(SMALLEST_P / 2 / len(correlation)) / np.sqrt(table.shape[1])
    assert np.abs(correlation).max() < limit


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(FIELDS, 2)))
def test_a_step_in_any_key_gives_an_independent_stream_along_any_other(first, second):
    """Pairs (u at key, u at key + 1) along the other key fill the square evenly, in both directions."""
    p_values = {}
    for along, stepped in ((first, second), (second, first)):
        for value in (1, 20):
            here, there = (line(along, 2048, **{stepped: value + step}) for step in (0, 1))
            name = f"{along} {stepped} {value}"
            p_values[name] = chi_square_p(np.histogram2d(here, there, 8, ((0, 1), (0, 1)))[0])
            p_values[name + " correlation"] = float(stats.pearsonr(here, there).pvalue)
    assert not below(p_values)


def test_the_grid_of_agents_and_items_has_independent_rows_and_columns():
    draws = uniform(
        1, Purpose.GUMBEL, 0, tenant_keys(0, 0, np.arange(300))[:, None], pair_key(agent_keys(NAMES[:30]), 1)
    )
    rows, columns = draws.mean(axis=1), draws.mean(axis=0)
    for means, size in ((rows, 30), (columns, 300)):
        statistic = float((12 * size * (means - 0.5) ** 2).sum())
        assert SMALLEST_P < stats.chi2.sf(statistic, len(means)) < 1 - SMALLEST_P


@pytest.mark.parametrize("field", FIELDS)
def test_flipping_one_bit_of_a_key_flips_half_of_the_bits_of_the_draw(field):
    flips = np.zeros((64, 64))
    bases = [{name: (97 * base + place) * GOLDEN & MASK for place, name in enumerate(FIELDS)} for base in range(64)]
    for keys, place in itertools.product(bases, range(64)):
        changed = keys | {field: keys[field] ^ 1 << place}
        difference = int(bits(**keys)) ^ int(bits(**changed))
        flips[place] += [difference >> bit & 1 for bit in range(64)]
    assert abs(flips.mean() / 64 - 0.5) < 0.01  # 262,144 flips: five standard errors are .005
    assert abs(flips / 64 - 0.5).max() < 0.375  # worst of 4,096 cells of 64 trials: six standard errors


def test_small_keys_never_collide():
    week, agent, item, draw = np.ix_(np.arange(-8, 8), np.arange(64), np.arange(16), np.arange(4))
    words = bits(0, Purpose.TASTE, week, agent, item, draw)
    assert len(np.unique(words)) == words.size


# --- keys ----------------------------------------------------------------------------------------------------------


def test_names_give_distinct_keys_in_the_order_of_the_names():
    keys = agent_keys(NAMES)
    assert keys.dtype == np.uint64
    assert keys.tolist() == [agent_key(name) for name in NAMES]
    assert len(set(keys.tolist())) == len(NAMES)


def test_a_name_twice_is_an_error():
    with pytest.raises(ValueError, match="'Lambda' and 'Lambda' have the same key"):
        agent_keys(["Lambda", "Crusoe", "Lambda"])


def test_two_names_with_one_key_are_an_error(monkeypatch):
    monkeypatch.setattr(randomness, "agent_key", len)
    with pytest.raises(ValueError, match="'Vultr' and 'Azure' have the same key"):
        agent_keys(["Vultr", "Azure"])


def test_no_names_give_no_keys():
    assert agent_keys([]).shape == (0,)


def test_keys_of_tenants_and_pairs_follow_the_rule_and_differ():
    assert int(tenant_keys(1, -2, 3)) == reference_chain(0x13198A2E03707344, 1, -2, 3)
    assert int(pair_key(2**64 - 1, 3)) == reference_chain(0xA4093822299F31D0, 2**64 - 1, 3)
    grid = np.ix_(np.arange(5), np.arange(-4, 4), np.arange(500))
    tenants = tenant_keys(*grid)
    assert len(np.unique(tenants)) == tenants.size


def test_the_order_of_a_pair_matters():
    assert int(pair_key(1, 2)) != int(pair_key(2, 1))
    pairs = pair_key(np.arange(200)[:, None], np.arange(200))
    assert len(np.unique(pairs)) == pairs.size
