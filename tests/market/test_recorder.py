"""What the records say beyond sums that the balance tests hold: terms on the price sheet, loans as drawn."""

import numpy as np
import polars as pl
import pytest

from market.credit import loan_rate
from market.finance import FinanceParameters
from tests.worlds import few_sellers, tables_of


@pytest.fixture(scope="module")
def tables():
    return tables_of(few_sellers(), weeks=12)


def test_a_fixed_spot_tier_and_a_discount_for_a_year_are_read_off_the_sheet(tables):
    lots = pl.DataFrame(tables["seller_week"]).filter(pl.col("provider_class") == "neocloud")
    spot, listed = lots["spot_usd_per_gpu_hour"].to_numpy(), lots["list_usd_per_gpu_hour"].to_numpy()
    floor = 0.75 * 1.05 * lots["running_usd_per_gpu_hour"].to_numpy()
    assert spot == pytest.approx(np.maximum(0.53 * listed, floor))
    year = lots["one_year_usd_per_gpu_hour"].to_numpy()
    known = np.isfinite(year)
    assert known.any()
    assert (year[known] < listed[known] * 1.3).all()


def test_a_loan_is_recorded_in_its_week_at_the_rate_of_its_bankable_share(tables):
    loans, books = tables["loan_week"], pl.DataFrame(tables["book_week"])
    assert len(loans["week"]) > 0
    assert (loans["loan_usd"] > 0.0).all()
    assert loans["annual_rate"] == pytest.approx(loan_rate(loans["bankable_share"], FinanceParameters()))
    drawn = (
        pl.DataFrame({name: loans[name] for name in ("seller", "week", "loan_usd")}).group_by("seller", "week").sum()
    )
    debt = books.select("week", "debt_usd", seller="agent").with_columns(
        before=pl.col("debt_usd").shift().over("seller")
    )
    rise = debt.join(drawn, on=["seller", "week"], how="left").fill_null(0.0).filter(pl.col("week") > 0)
    repaid = rise["before"] + rise["loan_usd"] - rise["debt_usd"]  # 0 or a level payment's principal
    assert (repaid >= -1.0).all()
    assert (repaid.abs() <= 1.0).sum() > 0.5 * len(repaid)
