"""Identities of money and hours, held every week."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats
from market.ledger import TOLERANCE, Account, check, subsidiary_residuals
from market.units import HOURS_PER_WEEK

if TYPE_CHECKING:
    from market.accounts import Accounts
    from market.model import MarketModel

__all__ = ["ImbalanceError", "hold_identities", "hold_rent", "hours_residual"]


class ImbalanceError(RuntimeError):
    """Money or hours that do not add up: a fault of the program, never of its user."""


def hold_identities(accounts: Accounts, model: MarketModel) -> None:
    """Hold the identities of money and hours.

    Raises:
        ImbalanceError: one of them is off by more than rounding.
    """
    scale = max(1.0, float(accounts.ledger.flow_to_date.sum()))
    agents = len(accounts.ledger.names)
    books = {
        "debt and loan book": subsidiary_residuals(
            accounts.ledger, Account.DEBT, accounts.loans.balance_by_borrower(agents)
        ),
        "GPUs and asset book": subsidiary_residuals(accounts.ledger, Account.GPUS, _asset_values(accounts, agents)),
        "interest and loan book": subsidiary_residuals(
            accounts.ledger, Account.INTEREST_PAYABLE, accounts.loans.accrued_by_borrower(agents)
        ),
    }
    residuals = {"ledger": check(accounts.ledger)} | {
        name: float(np.abs(residual).max()) / scale for name, residual in books.items()
    }
    residuals["hours"] = hours_residual(model)
    if accounts.ledger.repeated:
        raise ImbalanceError(f"week {model.week}: posted twice: {', '.join(accounts.ledger.repeated)}")
    worst = max(residuals, key=lambda name: residuals[name])
    if not residuals[worst] <= TOLERANCE:
        raise ImbalanceError(f"week {model.week}: {worst} off by {residuals[worst]:.3g} of the flows")


def _asset_values(accounts: Accounts, agents: int) -> Floats:
    """Book value of GPUs by agent: fleets in tranches, and what lenders hold in store."""
    values = accounts.assets.book_by_seller(agents)
    values[accounts.lender_row] += accounts.repossessed_usd
    return values


def hold_rent(accounts: Accounts, model: MarketModel) -> None:
    """Hold rent posted against what the leases of the week imply: an hour billed twice shows here."""
    owed = float((model.leases.gpus * model.prices_paid()).sum()) * HOURS_PER_WEEK
    posted = sum(accounts.ledger.week_total(reason) for reason in ("rent", "developer_cloud_rent", "pool_rent"))
    if abs(posted - owed) > TOLERANCE * max(1.0, float(accounts.ledger.flow_to_date.sum())):
        raise ImbalanceError(f"week {model.week}: rent posted is {posted:.2f} USD, leases owe {owed:.2f} USD")


def hours_residual(model: MarketModel) -> float:
    """Largest breach of the hours identities, as a share of installed GPUs.

    In every lot what is listed is sold, pooled or open, nothing twice; what the pool sold its members served; installed
    GPUs are sold, pooled, used by the vendor or idle, nothing else.
    """
    s = model.suppliers
    sold, listed, pooled = model.sold_gpus(), model.listed_gpus(), model.pooled_gpus
    third = s.third_party
    direct = np.where(third[:, None], sold + pooled, 0.0)
    over = float(np.abs(listed - direct - model.book.open_gpus)[third].max(initial=0.0))
    cloud_over = max(0.0, model.desk_sold_gpus() - float(s.firm_gpus.sum()))
    pool_gap = 0.0
    if model.pool_row >= 0:
        pool_gap = float(np.abs(sold[model.pool_row] - pooled.sum(axis=0)).max())
    idle = float(np.maximum(listed - direct, 0.0)[third].sum())
    total = float(direct.sum()) + float(s.firm_gpus.sum()) + idle
    installed = float(s.installed_gpus.sum())
    return max(over, cloud_over, pool_gap, abs(total - installed)) / max(1.0, installed)
