"""The week, one line per phase, in the order in which things happen.

In every phase all agents decide from the same view; the model applies their decisions in a fixed order. The order of
play, ties and rationing are told in ``docs/background/mechanisms.md``; this page and that one change together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from market import events, supply, trade
from market.demand import move_demand
from market.distress import fail
from market.failure import retire
from market.software import mature

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["play_week"]


def play_week(model: MarketModel) -> None:
    """Play one week of 168 hours."""
    model.open_week()  # a new week; everybody sees last week's close
    events.happen(model)  # dated events of this week
    defaults = fail(model)  # who could not pay or stays outside covenants: rescue, standstill, or the end
    supply.deliver(model)  # GPUs due now join fleets and books, repossessed ones come back
    move_demand(model)  # wanted work, readiness for AMD
    mature(model)  # AMD's software
    trade.quote(model)  # quotes, price sheets, term prices, the pool's and the developer cloud's offers
    trade.expire_and_review(model)  # leases end; some on-demand holders compare again
    trades = trade.clear_market(model)  # tenants choose, in order of priority
    model.accounts.bill(model)  # rent, pool settlement, leaseback
    model.accounts.close(model)  # running cost, interest, debt service, depreciation, tax
    trade.tighten(model, trades)  # use with turned-away demand
    retired = retire(model)  # fleets that do not cover their running cost
    supply.plan(model)  # every four weeks: orders, allocation, entry
    model.close_week(trades, retired, defaults)  # what the public will see, records, identities
