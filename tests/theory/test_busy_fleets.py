"""Leases that come and go at random on a fleet: how much is turned away, how long it waits, what pooling gains.

The week of the market is a step in which leases end before new ones start, so the formulas of continuous time are no
statement about it. What is tested is the clearing: many fleets at once, each with a clock of its own, every request
admitted (or not) by a call of the market's clearing with the GPUs that are free at that moment. Sources: Erlang 1917;
Kleinrock 1975; Kaufman 1981; Roberts 1981; Smith & Whitt 1981.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from market.arrays import Floats, Ints
from market.clearing.pool import PoolLot
from market.clearing.posted import Queue, clear
from tests.market.small_markets import plain_clearing
from tests.theory.table import Case, family

# All or nothing: a lot that cannot serve the whole request is passed over.
WHOLE = plain_clearing(skip_threshold=1.0)


def admit(wanted: Floats, lots: Ints, free: Floats, pools: Sequence[PoolLot] = ()) -> tuple[Floats, Floats]:
    """GPUs granted to one request a row, and GPUs that members serve through pools by lot; the market's clearing."""
    queue = Queue(wanted, wanted, lots[:, None], np.ones((len(lots), 1)), np.full((len(lots), 1), np.inf))
    outcome = clear(queue, free, WHOLE, pools)
    return outcome.taken_gpus[:, 0], outcome.pooled_gpus


@dataclass(frozen=True)
class Seen:
    """What requests met, one figure a fleet: share turned away by size ``(fleets, sizes)``, part of GPUs let."""

    blocked: Floats
    use: Floats


def loss_system(
    gpus: int, sizes: Sequence[int], loads: Sequence[float], fleets: int, requests: int, seed: int, law: str
) -> Seen:
    """Fleets on which requests of several sizes come at random; what is not free at once is lost.

    Args:
        gpus: GPUs of a fleet.
        sizes: GPUs of a request of each kind.
        loads: Requests of each kind in a mean lease length.
        fleets: Independent fleets.
        requests: Requests each meets after it has settled.
        seed: Seed.
        law: Law of lease lengths of mean 1: exponential, or uniform between 0 and 2.
    """
    luck, rate, size = np.random.default_rng(seed), np.array(loads), np.array(sizes, np.float64)
    settle = int(np.ceil(8.0 * rate.sum()))  # eight mean lease lengths
    held, ends, lots = np.zeros((fleets, 0)), np.zeros((fleets, 0)), np.arange(fleets)
    asked, refused, used = np.zeros((fleets, len(sizes))), np.zeros((fleets, len(sizes))), np.zeros(fleets)
    now = np.zeros(fleets)
    for step in range(settle + requests):
        now = now + luck.exponential(1.0 / rate.sum(), fleets)
        held = np.where(ends > now[:, None], held, 0.0)
        kind = luck.choice(len(sizes), fleets, p=rate / rate.sum())
        busy = held.sum(axis=1)
        granted, _ = admit(size[kind], lots, gpus - busy)
        if step >= settle:
            used += busy / gpus
            asked[lots, kind] += 1.0
            refused[lots, kind] += granted == 0.0
        length = luck.exponential(1.0, fleets) if law == "exponential" else luck.uniform(0.0, 2.0, fleets)
        held, ends = _with(held, ends, lots, granted, now + length)
    share = np.divide(refused, asked, out=np.zeros(asked.shape), where=asked > 0.0)
    # A fleet with few requests of a kind counts as much as it has seen.
    return Seen(share * asked / asked.mean(axis=0), used / requests)


def _with(held: Floats, ends: Floats, rows: Ints, gpus: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Leases join in a free place of these rows; further columns where some row has none."""
    if not held.shape[1] or not (held == 0.0).any(axis=1).all():
        held, ends = (np.pad(table, ((0, 0), (0, 8))) for table in (held, ends))
    place = (held[rows] == 0.0).argmax(axis=1)
    held[rows, place], ends[rows, place] = gpus, end
    return held, ends


ByFleet = dict[str, Floats]


def errors(found: ByFleet) -> dict[str, float]:
    """Standard errors of means over fleets."""
    return {name: float(figures.std() / np.sqrt(len(figures))) for name, figures in found.items()}


def near(case: Case, found: ByFleet) -> None:
    """Every known quantity within 4.5 standard errors (and a hair, where all fleets agree by chance)."""
    spread = errors(found)
    for name, known in case.known.items():
        assert abs(found[name].mean() - known.value) <= 4.5 * spread[name] + 2e-3, name


def agree_when_sure(case: Case, run: Callable[[int], ByFleet]) -> None:
    """More seeds until four standard errors are below the tolerances, then the tolerances of the table."""
    found = run(2)
    for seed in range(3, 40):
        if all(4.0 * error < case.known[name].tolerance for name, error in errors(found).items()):
            break
        more = run(seed)
        found = {name: np.concatenate([figures, more[name]]) for name, figures in found.items()}
    assert all(4.0 * error < case.known[name].tolerance for name, error in errors(found).items())
    case.agree({name: float(figures.mean()) for name, figures in found.items()})


def erlang(case: Case) -> tuple[int, list[int], list[float]]:
    """GPUs, sizes and loads of a case."""
    if case.family == "multi_size_loss":
        return case["gpus"], case["job_gpus"], case["offered_jobs_of_size"]
    return case["gpus"], [1], [case["offered_load_gpus"]]


def names(case: Case) -> list[str]:
    """Quantities of blocking, by size."""
    return [f"blocking_of_{size}_gpu_jobs" for size in case["job_gpus"]] if "job_gpus" in case.inputs else ["blocking"]


def lost(case: Case, fleets: int, requests: int, seed: int, law: str = "exponential") -> ByFleet:
    """Blocking by size and use, by fleet."""
    seen = loss_system(*erlang(case), fleets=fleets, requests=requests, seed=seed, law=law)
    return dict(zip(names(case), seen.blocked.T, strict=True)) | {"utilisation": seen.use}


@pytest.mark.parametrize("law", ["exponential", "uniform"])
@family("erlang_b", "multi_size_loss")
def test_requests_are_lost_as_often_as_stated_whatever_the_law_of_lengths(case: Case, law: str) -> None:
    near(case, lost(case, 200, 100, 1, law))


@pytest.mark.soak
@family("erlang_b", "multi_size_loss")
def test_requests_are_lost_as_often_as_stated_within_the_tolerance_of_the_table(case: Case) -> None:
    agree_when_sure(case, lambda seed: lost(case, 3000, 600, seed))


# ------------------------------------------------------------------------------------------------ waiting


def waiting(gpus: int, load: float, fleets: int, requests: int, seed: int) -> tuple[Floats, Floats]:
    """Share of requests that wait and mean wait in mean lease lengths, by fleet; first come, first served.

    At each step every fleet has its next event, a request or the end of a lease; the clearing then serves the request
    at the head of its line if a GPU is free.
    """
    luck, row = np.random.default_rng(seed), np.arange(fleets)
    idle = max(1.0 - load / gpus, 0.02)
    settle = int(np.ceil(load * (5.0 + 6.0 / (gpus * idle**2))))
    ends = np.full((fleets, gpus), np.inf)
    since = np.full((fleets, 16), np.inf)  # when those in line came, first come first
    came, waited, delay = np.zeros(fleets), np.zeros(fleets), np.zeros(fleets)
    now, arrives = np.zeros(fleets), luck.exponential(1.0 / load, fleets)
    while came.min() < settle + requests:
        next_end = ends.min(axis=1)
        new = arrives < next_end
        now = np.where(new, arrives, next_end)
        over = ends.argmin(axis=1)
        ends[row[~new], over[~new]] = np.inf
        if not np.isinf(since[:, -1]).all():
            since = np.pad(since, ((0, 0), (0, 16)), constant_values=np.inf)
        length = np.isfinite(since).sum(axis=1)
        since[row[new], length[new]] = now[new]
        came += new
        arrives = np.where(new, now + luck.exponential(1.0 / load, fleets), arrives)
        waits = np.isfinite(since[:, 0])
        free = np.isinf(ends).sum(axis=1).astype(np.float64)
        granted, _ = admit(waits.astype(np.float64), np.where(waits, row, -1), free)
        served = granted > 0.0
        place = np.isinf(ends).argmax(axis=1)
        ends[row[served], place[served]] = now[served] + luck.exponential(1.0, served.sum())
        counts = served & (came > settle)
        late = np.where(served, now - since[:, 0], 0.0)
        waited += counts & (late > 0.0)
        delay += np.where(counts, late, 0.0)
        since[served] = np.pad(since[served, 1:], ((0, 0), (0, 1)), constant_values=np.inf)
    return waited / (came - settle), delay / (came - settle)


def waits(case: Case, fleets: int, requests: int, seed: int) -> ByFleet:
    """Share that waits and mean wait, by fleet."""
    share, wait = waiting(case["gpus"], case["offered_load_gpus"], fleets, requests, seed)
    return {"wait_probability": share, "mean_wait": wait}


@family("erlang_c")
def test_requests_wait_as_often_and_as_long_as_stated(case: Case) -> None:
    near(case, waits(case, 300, 150, 1))


@pytest.mark.soak
@family("erlang_c")
def test_requests_wait_as_often_and_as_long_as_stated_within_the_tolerance_of_the_table(case: Case) -> None:
    agree_when_sure(case, lambda seed: waits(case, 2000, 2000, seed))


# ------------------------------------------------------------------------------------------------ pooling


def pooled(clouds: int, gpus: int, load: float, markets: int, requests: int, seed: int) -> tuple[Floats, Floats]:
    """Share of requests lost and use where all requests go to a pool over several fleets' free GPUs, by market.

    The pool is the market's: a lot of its own that is served in merit order by whichever member has GPUs free.
    """
    luck, rate = np.random.default_rng(seed), clouds * gpus * load
    lots = np.arange(markets * (clouds + 1)).reshape(markets, clouds + 1)  # members, then the pool
    pools = [PoolLot(int(row[-1]), row[:-1], 1.0) for row in lots]
    settle = int(np.ceil(8.0 * rate))
    held, ends = np.zeros((markets * clouds, 0)), np.zeros((markets * clouds, 0))  # a row a member
    now, refused, used = np.zeros(markets), np.zeros(markets), np.zeros(markets)
    for step in range(settle + requests):
        now = now + luck.exponential(1.0 / rate, markets)
        held = np.where(ends > np.repeat(now, clouds)[:, None], held, 0.0)
        busy = held.sum(axis=1).reshape(markets, clouds)
        free = np.column_stack([gpus - busy, np.zeros(markets)])
        granted, by_member = admit(np.ones(markets), lots[:, -1], free.ravel(), pools)
        if step >= settle:
            refused += granted == 0.0
            used += busy.sum(axis=1) / (clouds * gpus)
        serves = by_member.reshape(markets, clouds + 1)[:, :-1]
        assert (serves.sum(axis=1) == granted).all()
        market = np.flatnonzero(granted > 0.0)
        member = market * clouds + serves[market].argmax(axis=1)
        held, ends = _with(held, ends, member, granted[market], now[market] + luck.exponential(1.0, len(market)))
    return refused / requests, used / requests


def gain_from_pooling(case: Case, markets: int, requests: int, seed: int) -> ByFleet:
    """Blocking apart and together, and what use gains, by market."""
    clouds, each, load = case["clouds"], case["gpus_each"], case["load_per_gpu"]
    apart = loss_system(each, [1], [each * load], markets, requests, seed, "exponential")
    lost, used = pooled(clouds, each, load, markets, requests, seed + 1000)
    return {
        "blocking_separate": apart.blocked[:, 0],
        "blocking_pooled": lost,
        "utilisation_gain": used - apart.use,
    }


@family("pooling")
def test_a_pool_over_several_fleets_turns_fewer_requests_away(case: Case) -> None:
    near(case, gain_from_pooling(case, 50, 120, 3))


@pytest.mark.soak
@family("pooling")
def test_a_pool_over_several_fleets_turns_fewer_requests_away_within_the_tolerance_of_the_table(case: Case) -> None:
    agree_when_sure(case, lambda seed: gain_from_pooling(case, 500, 800, seed))
