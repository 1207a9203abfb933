"""Words of a report that not every reader knows."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["TERMS", "terms_in"]

TERMS = {
    "AMD-heavy": "a seller at least half of whose GPUs at the opening are AMD's; Nvidia-heavy: any other.",
    "anchor": "the pull of a published price on what rivals post; an assumption that rests on one seller's account.",
    "arm": "one variant of the experiment; arms share all seeds and differ only in what their table says.",
    "band": "the shaded area about a line in a figure; its caption says what it is.",
    "cap": "the most GPUs that the Developer Cloud rents out at one time.",
    "contrast": "an arm minus another, seed by seed.",
    "Developer Cloud": "AMD's own cloud: hours leased back from partners, offered to tenants at a posted price.",
    "EBITDA margin": "revenue less running cost, overhead and fees, over revenue.",
    "GPU-hour": "one GPU for one hour; a week has 168 hours.",
    "H100e": "work of one H100: GPUs times throughput of the SKU for the work at hand.",
    "hyperscaler": "one of the large clouds, which rents out GPUs among much else and moves prices seldom.",
    "interval": "a range from Student's t law over seeds. It covers the luck of the seeds, not errors of assumptions.",
    "leased-back": "GPUs that a seller owns and the vendor rents from it, used or not.",
    "list price": "a seller's posted on-demand price, USD per GPU-hour.",
    "marketplace": "a site where hosts rent out GPUs of their own at prices that move freely.",
    "neocloud": "a cloud whose business is to rent out GPUs.",
    "on-demand": "a lease without an end date, at the seller's current price.",
    "operating margin": "EBITDA less depreciation, over revenue; before interest and tax.",
    "outcome": "a number measured from the weeks of one run.",
    "paired": "taken between two runs with the same seed: the same luck in both, so that it cancels.",
    "pool": "Nvidia's marketplace DGX Lepton: spare hours of its members at one quote.",
    "seed": "the number that fixes all luck of a run.",
    "SKU": "one accelerator as sold: H100, MI300X.",
    "spread": "standard deviation of list prices across sellers over their mean.",
    "sweep": "the range of a parameter that is worth trying.",
    "trend of the spread": "slope of the logarithm of the spread, per year; below zero prices converge.",
    "catch-up of prices": "how much of a seller's distance from the mean price is gone after four weeks, as a negative "
    "number.",
    "USD billion": "1,000,000,000 US dollars.",
}
"""Term to meaning."""


def terms_in(texts: Iterable[str]) -> list[tuple[str, str]]:
    """The terms that occur in the texts, in alphabetical order."""
    whole = "\n".join(texts)
    found = [term for term in TERMS if re.search(rf"(?<!\w){re.escape(term)}s?(?!\w)", whole, re.IGNORECASE)]
    return [(term, TERMS[term]) for term in sorted(found, key=str.lower)]
