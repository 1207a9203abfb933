"""Luck by key: a draw is a pure function of who draws, what for and when.

There is no generator and no state. ``uniform(seed, purpose, week, agent_key, item_key, draw)`` gives the same number
whenever and in whatever order it is asked, so a new agent or another policy leaves everybody else's luck alone and
scenarios can be compared seed by seed (common random numbers).

Rule: a 64-bit state absorbs the fields one after the other,

    ``state ← mix(state + (field + 1) × golden)``  (mod 2^64),

with ``mix`` the finaliser of splitmix64, so that each field in turn selects a member of a splitmix64 sequence (Steele,
Lea & Flood 2014, "Fast splittable pseudorandom number generators"). Negative fields enter as two's complement. Fields
given as one number are absorbed once in plain integers; only array fields cost time per element. A plain-integer or
compiled version of the rule gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from hashlib import blake2b
from operator import index
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

__all__ = [
    "Purpose",
    "agent_key",
    "agent_keys",
    "bits",
    "exponential",
    "gumbel",
    "normal",
    "pair_key",
    "tenant_keys",
    "uniform",
]

Bits: TypeAlias = NDArray[np.uint64]
Floats: TypeAlias = NDArray[np.float64]

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
# Arbitrary starting states (digits of pi) keep draws, keys of tenants and keys of pairs apart.
_DRAW_STATE = 0x243F6A8885A308D3
_TENANT_STATE = 0x13198A2E03707344
_PAIR_STATE = 0xA4093822299F31D0


class Purpose(IntEnum):
    """What a draw is for. The numbers are part of every result: add new ones, never change or reuse one."""

    TASTE = 1
    GUMBEL = 2
    OUTSIDE = 3
    PRIORITY = 4
    REVIEW = 5
    SIZE = 6
    TERM = 7
    SENSITIVITY = 8
    RESERVATION = 9
    LOCK_IN = 10
    VENDOR_TASTE = 11
    AMD_READY = 12
    HOME = 13
    SWITCHING = 14
    QUALITY = 15
    SEARCH = 16
    OWN_DEMAND = 17
    COMMON_DEMAND = 18
    PRICE_NOISE = 19
    REVISION = 20
    SKU_PREMIUM = 21
    OPENING_LEASE = 22
    OPENING_LIFE = 23
    DEBT_LIFE = 24
    READINESS = 25
    FORGET = 26
    POOL = 27
    ORDER = 28
    DELIVERY = 29
    ENTRY = 30
    SAMPLE = 31
    VENDOR_SHOCK = 32
    EXPLORE = 33


def bits(
    seed: int, purpose: int, week: ArrayLike, agent_key: ArrayLike, item_key: ArrayLike = 0, draw: ArrayLike = 0
) -> Bits:
    """64 random bits for every combination of the keys, which broadcast like numpy arrays.

    Args:
        seed: seed of the run, an integer of 64 bits; 0 is a seed.
        purpose: what the draw is for, a member of `Purpose`.
        week: week of the draw; negative weeks lie before June 2025. Use 0 for what is drawn once.
        agent_key: who draws: `agent_key`, `agent_keys` or `tenant_keys`.
        item_key: what is drawn for, such as the key of an offer (`pair_key` of seller and SKU).
        draw: number of the draw where one agent needs several for the same purpose, week and item.

    Returns:
        Array of the broadcast shape; of no dimension if every key is one number.

    Raises:
        TypeError: seed or purpose is no integer, or a key is not of an integer type.
        ValueError: a number does not fit in 64 bits.
    """
    fields = (_integer(seed, "seed"), _integer(purpose, "purpose"), week, draw, agent_key, item_key)
    return _as_array(_chain(_DRAW_STATE, *fields))


def uniform(
    seed: int, purpose: int, week: ArrayLike, agent_key: ArrayLike, item_key: ArrayLike = 0, draw: ArrayLike = 0
) -> Floats:
    """Uniform draws strictly inside (0, 1); arguments and shape as in `bits`."""
    return _unit(bits(seed, purpose, week, agent_key, item_key, draw))


def normal(
    seed: int, purpose: int, week: ArrayLike, agent_key: ArrayLike, item_key: ArrayLike = 0, draw: ArrayLike = 0
) -> Floats:
    """Standard normal draws, the inverse law of `uniform`; arguments and shape as in `bits`."""
    return np.asarray(ndtri(uniform(seed, purpose, week, agent_key, item_key, draw)), dtype=np.float64)


def gumbel(
    seed: int, purpose: int, week: ArrayLike, agent_key: ArrayLike, item_key: ArrayLike = 0, draw: ArrayLike = 0
) -> Floats:
    """Standard Gumbel draws ``-ln(-ln u)`` (mean .577, variance pi²/6); arguments and shape as in `bits`."""
    return np.asarray(-np.log(-np.log(uniform(seed, purpose, week, agent_key, item_key, draw))))


def exponential(
    seed: int, purpose: int, week: ArrayLike, agent_key: ArrayLike, item_key: ArrayLike = 0, draw: ArrayLike = 0
) -> Floats:
    """Exponential draws ``-ln(1 - u)`` of mean 1; arguments and shape as in `bits`."""
    return np.asarray(-np.log1p(-uniform(seed, purpose, week, agent_key, item_key, draw)))


def agent_key(name: str) -> int:
    """Stable 64-bit key of a named agent (or SKU): BLAKE2b of its name, the same in every process and version."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def agent_keys(names: Sequence[str]) -> Bits:
    """Keys of named agents, shape ``(len(names),)``.

    Raises:
        ValueError: two names share a key (as two equal names do), so their luck would be the same.
    """
    owners: dict[int, str] = {}
    for name in names:
        key = agent_key(name)
        if key in owners:
            raise ValueError(f"agents {owners[key]!r} and {name!r} have the same key")
        owners[key] = name
    return np.array(list(owners), dtype=np.uint64)


def tenant_keys(segment: ArrayLike, arrival_week: ArrayLike, ordinal: ArrayLike) -> Bits:
    """Keys of tenants by segment number, week of arrival and ordinal in that week; the arguments broadcast."""
    return _as_array(_chain(_TENANT_STATE, segment, arrival_week, ordinal))


def pair_key(first: ArrayLike, second: ArrayLike) -> Bits:
    """One 64-bit key of an ordered pair of keys, as seller and SKU; the arguments broadcast."""
    return _as_array(_chain(_PAIR_STATE, first, second))


def _chain(state: int | Bits, *fields: ArrayLike) -> int | Bits:
    """State after absorbing all fields in turn."""
    for field in fields:
        state = _absorb(state, _field(field))
    return state


def _absorb(state: int | Bits, field: int | Bits) -> int | Bits:
    """One step, ``mix(state + (field + 1) × golden)``; plain integers as long as nothing is an array."""
    if isinstance(field, int):
        step = (field + 1) * _GOLDEN & _MASK
        if isinstance(state, int):
            return _mix_integer(state + step & _MASK)
        return _mix(np.add(state, np.uint64(step)))
    step_array = np.multiply(field, np.uint64(_GOLDEN))
    if isinstance(state, int):
        return _mix(np.add(step_array, np.uint64(state + _GOLDEN & _MASK), out=step_array))
    np.add(step_array, np.uint64(_GOLDEN), out=step_array)
    return _mix(np.add(state, step_array))


def _mix_integer(x: int) -> int:
    """Finaliser of splitmix64 on a plain integer."""
    x = (x ^ x >> 30) * _MULTIPLIERS[0] & _MASK
    x = (x ^ x >> 27) * _MULTIPLIERS[1] & _MASK
    return x ^ x >> 31


def _mix(x: Bits) -> Bits:
    """Finaliser of splitmix64 in place; array arithmetic wraps silently, as wanted."""
    shifted = np.right_shift(x, np.uint64(30))
    np.bitwise_xor(x, shifted, out=x)
    np.multiply(x, np.uint64(_MULTIPLIERS[0]), out=x)
    np.right_shift(x, np.uint64(27), out=shifted)
    np.bitwise_xor(x, shifted, out=x)
    np.multiply(x, np.uint64(_MULTIPLIERS[1]), out=x)
    np.right_shift(x, np.uint64(31), out=shifted)
    return np.bitwise_xor(x, shifted, out=x)


def _unit(random_bits: Bits) -> Floats:
    """``(top 52 bits + 1/2) / 2^52``: exact in float64, so neither 0 nor 1 can appear (53 bits would round up to 1)."""
    value = np.right_shift(random_bits, np.uint64(12)).astype(np.float64)
    return np.asarray((value + 0.5) * 2.0**-52)


def _field(value: ArrayLike) -> int | Bits:
    """A field as a plain integer or a uint64 array.

    Arrays without a dimension become plain integers.
    """
    if isinstance(value, int | np.integer):
        return _integer(value, "key")
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"a key must be an integer or an array of an integer type, not {array.dtype}")
    if array.ndim == 0:
        return _integer(array[()], "key")
    if array.dtype.kind == "u":
        return array.astype(np.uint64, copy=False)
    return array.astype(np.int64, copy=False).view(np.uint64)


def _integer(value: Any, name: str) -> int:
    """A plain integer in [0, 2^64), negative ones as two's complement."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {value!r}") from None
    if not -(2**63) <= number <= _MASK:
        raise ValueError(f"{name} {number} does not fit in 64 bits")
    return number & _MASK


def _as_array(value: int | Bits) -> Bits:
    """The state as an array; one number becomes an array of no dimension."""
    return np.asarray(value, dtype=np.uint64)
