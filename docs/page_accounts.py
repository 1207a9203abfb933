"""The page of the chart of accounts, the entry types and the identities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from market.ledger import ENTRY_TYPES, Account, EntryType
from market.statements import ACTIVITIES

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]

_WORLD, _TENANTS, _LENDERS = "rest of world", "tenants", "lenders"
_PARTIES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("opening_gpus", "opening_cash", "equity_in", "unpaid_bills", "scrap_sale"), (_WORLD, "Vultr")),
    **dict.fromkeys(("rent", "pool_rent"), (_TENANTS, "Vultr")),
    **dict.fromkeys(("running", "overhead", "tax", "capital_returned"), ("Vultr", _WORLD)),
    **dict.fromkeys(("depreciation", "asset_disposal"), ("Vultr", "Vultr")),
    **dict.fromkeys(("leaseback", "cover"), ("AMD", "Vultr")),
    **dict.fromkeys(("rent_share", "guarantee_fee", "capital_purchase"), ("Vultr", "AMD")),
    **dict.fromkeys(("programme", "hardware_cost"), ("AMD", _WORLD)),
    **dict.fromkeys(
        (
            *("opening_debt", "interest_accrual", "interest_payment", "principal"),
            *("write_off", "interest_write_off", "repossession", "repossession_interest"),
        ),
        ("Vultr", _LENDERS),
    ),
    "developer_cloud_rent": (_TENANTS, "AMD"),
    "pool_fee": ("Vultr", "Nvidia"),
    "segment_funding": (_WORLD, _TENANTS),
    "loan_draw": (_LENDERS, "Vultr"),
    "guarantee": ("AMD", _LENDERS),
    "asset_sale": ("Lambda", _LENDERS),
}
"""Payer and payee in the example of each entry type."""


def _side(changes: Mapping[Account, int]) -> str:
    """Debits and credits of one side of an entry of 100 USD."""
    debits = [f"{account.label} {100 * sign}" for account, sign in changes.items() if sign > 0]
    credits = [f"{account.label} {-100 * sign}" for account, sign in changes.items() if sign < 0]
    return f"debit {', '.join(debits)}; credit {', '.join(credits)}"


def _entry(reason: str, kind: EntryType) -> list[str]:
    """Row of an entry type: name, meaning, example, where it stands in a cash-flow statement."""
    payer, payee = _PARTIES[reason]
    example = f"{payer}: {_side(kind.payer)}" + (f". {payee}: {_side(kind.payee)}" if kind.payee else "")
    flows = " / ".join(dict.fromkeys(ACTIVITIES[reason])) if kind.moves_cash else "no cash"
    return [f"`{reason}`", kind.meaning, f"{example}.", flows]


def _kind_of(account: Account) -> str:
    if account < Account.DEBT:
        return "asset"
    return "claim" if account < Account.RENT_INCOME else "income" if account.sign < 0 else "expense"


_IDENTITIES = """Held every week for every agent, to 1e-8 of all money moved so far; a breach stops the run. The tests
play 200 random small markets with defaults, covers, guarantees, the pool and dated events; `pytest -m soak
tests/properties/test_balance.py` plays 2,000 of up to 40 weeks, all of which held when it was last run (December 2026).

```text
each entry          Σ debits = Σ credits on either side; cash paid = cash received
each agent          assets + expenses = debt + interest payable + paid in + income
                    equity = paid in + income − expenses = assets − debt − interest payable
                    Δ cash = received − paid = operating + investing + financing flows
all agents          Σ cash = 0,  Σ loans = Σ debt,  Σ interest receivable = Σ interest payable
                    Σ equity held = Σ paid in
flow matrix         every row (a flow type over sectors) and every column (a sector, with − Δ money) sums to 0
two sources         debt = Σ tranches of the loan book; interest payable = Σ interest accrued on them
                    GPUs = Σ tranches of the asset book (+ what lenders hold in store)
                    rent posted = Σ leases × price × 168; no entry of a week stands twice
```

Two figures stand beside the books and move no account: **economic value**, what a fleet would fetch second-hand
([Failure](mechanisms.md#failure)), and the **value for tax**, written off over `finance.tax_depreciation_years`. Owners
and the tax office look at that one, so `finance.depreciation_years` changes profit and covenants on book value, and no
cash."""


def page(notice: str, table: Table) -> str:
    """The page of accounts and entry types; ``table`` writes a table from head and body."""
    chart = [[account.label, _kind_of(account), "debit" if account.sign > 0 else "credit"] for account in Account]
    entries = [_entry(reason, kind) for reason, kind in ENTRY_TYPES.items()]
    parts = [
        notice,
        "# Accounts",
        "Every seller, vendor, segment of tenants, the lenders and the rest of the world keep the same books. Money "
        "moves by entries of a fixed list; each names the accounts of payer and payee. `neocloud books` draws up "
        "income statement, cash flow, balance sheet, the transactions-flow matrix and who paid whom, for any agent or "
        "class over any weeks:",
        "```bash\nneocloud books baseline-2025 --weeks 52 --who CoreWeave --every 13\n```",
        "## Chart of accounts",
        "Increases of assets and expenses are debits, of claims and income credits.",
        table(["account", "kind", "increases by"], chart),
        "## Entries",
        "The example books 100 USD. The last column says where cash stands in the statement of payer / payee.",
        table(["entry", "meaning", "example", "cash flow"], entries),
        "A used GPU is sold at a price that is not its book value by two entries: `asset_sale` brings the price in, "
        "`asset_disposal` takes the book value out; the difference is the sale result.",
        "## Identities",
        _IDENTITIES,
    ]
    return "\n\n".join(parts) + "\n"
