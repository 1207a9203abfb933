"""Parameters of finance: terms of loans, opening books, covenants, failure and second-hand values."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from market.parameters import Parameters, parameter
from market.units import WEEKS_PER_YEAR

__all__ = ["FinanceParameters"]


class FinanceParameters(Parameters):
    """Terms of loans, opening debt, cash and book values, and tax."""

    tax_rate: float = parameter("finance.tax_rate")
    rate_uncontracted: float = parameter("finance.rate_uncontracted")
    rate_contracted_discount: float = parameter("finance.rate_contracted_discount")
    base_rate: float = parameter("finance.base_rate")
    base_rate_quoted: float = parameter("finance.base_rate_quoted")
    strong_tenant_h100e: float = parameter("finance.strong_tenant_h100e")
    weak_contract_weight: float = parameter("finance.weak_contract_weight")
    loss_response: float = parameter("finance.loss_response")
    loss_memory_weeks: int = parameter("finance.loss_memory_weeks")
    opening_loan_rate: float = parameter("finance.opening_loan_rate")
    loan_to_value_base: float = parameter("finance.loan_to_value_base")
    loan_to_value_contracted: float = parameter("finance.loan_to_value_contracted")
    contracted_maximum: float = parameter("finance.contracted_maximum")
    facility_limit_usd: float = parameter("finance.facility_limit_usd")
    tenor_payments: int = parameter("finance.tenor_payments")
    balloon_share: float = parameter("finance.balloon_share")
    refinancing: bool = parameter("finance.refinancing")
    refinancing_gain: float = parameter("finance.refinancing_gain")
    cash_sweep_share: float = parameter("finance.cash_sweep_share")
    service_interval_weeks: int = parameter("finance.service_interval_weeks")
    debt_to_capital_nvidia: float = parameter("finance.debt_to_capital_nvidia")
    debt_to_capital_mixed: float = parameter("finance.debt_to_capital_mixed")
    debt_to_capital_amd: float = parameter("finance.debt_to_capital_amd")
    opening_debt_gross_up: float = parameter("finance.opening_debt_gross_up")
    opening_debt_gross_maximum: float = parameter("finance.opening_debt_gross_maximum")
    opening_debt_remaining: float = parameter("finance.opening_debt_remaining")
    opening_debt_maximum: float = parameter("finance.opening_debt_maximum")
    opening_loan_to_value: float = parameter("finance.opening_loan_to_value")
    opening_debt_weeks_minimum: int = parameter("finance.opening_debt_weeks_minimum")
    opening_debt_weeks_maximum: int = parameter("finance.opening_debt_weeks_maximum")
    opening_cash_share: float = parameter("finance.opening_cash_share")
    depreciation_years: float = parameter("finance.depreciation_years")
    tax_depreciation_years: float = parameter("finance.tax_depreciation_years")
    opening_depreciation_years: float = parameter("finance.opening_depreciation_years")
    opening_book_weeks: int = parameter("finance.opening_book_weeks")
    opening_book_minimum: float = parameter("finance.opening_book_minimum")
    amd_debt_multiple: float = parameter("finance.amd_debt_multiple")
    default_enabled: bool = parameter("finance.default_enabled")
    covenant_dscr: float = parameter("finance.covenant_dscr")
    breach_dscr: float = parameter("finance.breach_dscr")
    covenant_loan_to_value: float = parameter("finance.covenant_loan_to_value")
    covenant_value: Literal["market", "book"] = parameter("finance.covenant_value")
    cure_weeks: int = parameter("finance.cure_weeks")
    standstill_weeks: int = parameter("finance.standstill_weeks")
    lost_tenant_share: float = parameter("finance.lost_tenant_share")
    lost_tenant_weeks: int = parameter("finance.lost_tenant_weeks")
    dscr_memory: float = parameter("finance.dscr_memory")
    rescue_equity_share: float = parameter("finance.rescue_equity_share")
    rescue_dscr: float = parameter("finance.rescue_dscr")
    rescue_limit_share: float = parameter("finance.rescue_limit_share")
    rescue_service_weeks: int = parameter("finance.rescue_service_weeks")
    recovery_share: float = parameter("finance.recovery_share")
    storage_weeks: int = parameter("finance.storage_weeks")
    buyer_size_multiple: float = parameter("finance.buyer_size_multiple")
    resale_quote_factor: float = parameter("finance.resale_quote_factor")
    resale_use: float = parameter("finance.resale_use")
    resale_discount_per_year: float = parameter("finance.resale_discount_per_year")
    resale_life_years: float = parameter("finance.resale_life_years")
    resale_minimum: float = parameter("finance.resale_minimum")
    resale_maximum: float = parameter("finance.resale_maximum")
    amd_hardware_margin: float = parameter("finance.amd_hardware_margin")
    nvidia_hardware_margin: float = parameter("finance.nvidia_hardware_margin")

    @model_validator(mode="after")
    def _ordered_weeks(self) -> Self:
        """The shortest remaining life of opening debt cannot exceed the longest."""
        if self.opening_debt_weeks_minimum > self.opening_debt_weeks_maximum:
            raise ValueError("opening_debt_weeks_minimum must be at most opening_debt_weeks_maximum")
        return self

    @property
    def depreciation_weeks(self) -> float:
        """Weeks over which new units are written off."""
        return self.depreciation_years * WEEKS_PER_YEAR

    @property
    def tax_depreciation_weeks(self) -> float:
        """Weeks over which the tax office lets new units be written off."""
        return self.tax_depreciation_years * WEEKS_PER_YEAR

    @property
    def opening_depreciation_weeks(self) -> float:
        """Weeks over which the opening book value is written off."""
        return self.opening_depreciation_years * WEEKS_PER_YEAR
