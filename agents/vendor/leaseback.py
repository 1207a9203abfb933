"""Leaseback: a vendor sells GPUs to a seller and rents part of them back, a floor under the seller's revenue."""

from __future__ import annotations

from market.parameters import Parameters, parameter

__all__ = ["LeasebackParameters", "lease_rate_usd"]


class LeasebackParameters(Parameters):
    """Terms of the vendor's rent."""

    lease_rate_usd_per_gpu_hour: float = parameter("leaseback.lease_rate_usd_per_gpu_hour")
    reference_capital_usd: float = parameter("leaseback.reference_capital_usd")


def lease_rate_usd(capex_usd: float, parameters: LeasebackParameters) -> float:
    """Rent of a leased-back GPU, USD per GPU-hour: the reference rate in proportion to capital (assumption)."""
    return parameters.lease_rate_usd_per_gpu_hour * capex_usd / parameters.reference_capital_usd
