"""Claims of the article that the project starts from (June 2025), judged by the project's own tables and runs.

Each function takes the evidence and returns a `Claim`; its verdict follows from checks whose bounds stand in
``market/data/claims.csv``. `CLAIMS` lists them by name. Two rest on a simulation (`experiments.study.effects`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from experiments.study.effects import Effect
from experiments.study.evidence import Check, Claim, Evidence, Look
from experiments.study.parity import Switching, flip_prices, later_maturity
from market.costs import full_cost_usd_per_gpu_hour, running_usd_per_gpu_hour
from market.tables import Sku
from market.throughput import link_seconds_per_gb, maturity_start, relative_throughput
from market.units import VENDORS

__all__ = ["CLAIMS", "SIMULATED", "judge"]


def _near(label: str, measured: float, claimed: float, tolerance: float, *, later: bool = False) -> Check:
    """Accord within a tolerance on either side."""
    return Check(label, measured, claimed - tolerance, claimed + tolerance, later=later)


def _saving(dear: float, cheap: float) -> float:
    """By which share the second is cheaper."""
    return 1.0 - cheap / dear


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _cost(evidence: Evidence, *skus: Sku) -> list[float]:
    """Owner's cost of each, USD per GPU-hour."""
    return [float(usd) for usd in full_cost_usd_per_gpu_hour(skus, evidence.scenario.costs)]


# ------------------------------------------------------------------------------------------------ hardware and cost


def owners_cost(evidence: Evidence) -> Claim:
    """MI355X against HGX B200: a third cheaper to own at the date of the article, no longer a year later."""
    look = Look(evidence, "owners_cost")
    claimed, tolerance = look.fact("claimed_saving"), look.fact("tolerance")
    nvidia, amd = look.sku("B200"), look.sku("MI355X")
    cheap = amd.model_copy(update={"capex_usd": (1.0 - look.fact("claimed_capital_saving")) * nvidia.capex_usd})
    theirs = _saving(look.fact("b200_usd_per_gpu_hour"), look.fact("mi355x_usd_per_gpu_hour"))
    as_claimed, ours = (_saving(*_cost(evidence, nvidia, sku)) for sku in (cheap, amd))
    published = [look.figures(name, "owner_cost_usd_per_gpu_hour", used=False) for name in ("B200", "MI355X")]
    latest = _saving(published[0][-1], published[1][-1])
    checks = [
        _near("the article's own table", theirs, claimed, tolerance),
        _near("cost parts of this project, capital as the article says", as_claimed, claimed, tolerance),
        _near("cost parts of this project, its capital", ours, claimed, tolerance, later=True),
        _near("published costs of a neocloud, mid-2026", latest, claimed, tolerance, later=True),
    ]
    why = (
        f"The article's table gives {_percent(theirs)}; the parts of this project give {_percent(as_claimed)} with the "
        f"capital it claims. With capital that returns the published costs of October 2025 they give {_percent(ours)}, "
        f"and the costs published in mid-2026 ({published[1][-1]:.2f} against {published[0][-1]:.2f} USD) "
        f"{_percent(latest)}."
    )
    text = f"MI355X costs its owner {100 * claimed:.0f} % less per hour than HGX B200"
    return look.claim(text, claimed=claimed, measured=latest, unit="share", checks=checks, why=why)


def power(evidence: Evidence) -> Claim:
    """MI350X at 1,000 W against MI355X at 1,400 W: within 10 % on paper, not in use."""
    look = Look(evidence, "power")
    bound = look.fact("claimed_gap")
    paper = _saving(look.fact("mi355x_peak_fp4_pflops"), look.fact("mi350x_peak_fp4_pflops"))
    in_use = look.fact("gap_in_use")
    model = _saving(*(look.figure(sku, "fp8_tflops") for sku in ("MI355X", "MI350X")))
    watts = [look.figures(sku, "tdp_w", used=False)[-1] for sku in ("MI350X", "MI355X")]
    checks = [
        Check("peak rates as its maker states them", paper, high=bound),
        Check("rates in this project's table", model, high=bound),
        Check("reported in use", in_use, high=bound),
    ]
    why = (
        f"On paper the gap is {_percent(paper)} at {watts[0]:,.0f} against {watts[1]:,.0f} W; the table of this "
        f"project has {_percent(model)}, an assumption made from such figures. In use about {_percent(in_use)} is "
        "reported: at less power the clocks do not stay equal."
    )
    text = f"MI350X ({watts[0]:,.0f} W) is within {100 * bound:.0f} % of MI355X ({watts[1]:,.0f} W) at equal clocks"
    return look.claim(text, claimed=bound, measured=paper, unit="share", checks=checks, why=why)


def _exchange_ratio(fast: Sku, slow: Sku, groups: Sequence[float]) -> list[float]:
    """How much faster one chip exchanges data in work groups of these sizes."""
    seconds = link_seconds_per_gb([fast, slow], np.asarray(groups, dtype=np.float64))
    return [float(ratio) for ratio in seconds[:, 1] / seconds[:, 0]]


def collectives(evidence: Evidence) -> Claim:
    """A domain of 72 against nodes of 8: the factor is link arithmetic and counts for work beyond 8 GPUs."""
    look = Look(evidence, "collectives")
    claimed, tolerance = look.fact("claimed_ratio"), look.fact("tolerance")
    rack, node = look.sku("GB200"), look.sku("MI355X")
    segments = evidence.tables.segments
    groups = sorted({segment.group_gpus for segment in segments} | {rack.domain_gpus})
    ratios = dict(zip(groups, _exchange_ratio(rack, node, groups), strict=True))
    links = look.figure("GB200", "scaleup_gb_per_s") / look.figure("MI355X", "nic_gb_per_s")
    work = relative_throughput(evidence.tables.skus, segments)
    index = evidence.tables.sku_index
    gains = work[:, index["GB200"]] / work[:, index["MI355X"]]
    checks = [_near(f"work groups of {group} GPUs", ratio, claimed, tolerance) for group, ratio in ratios.items()]
    beyond = [segment.name for segment in segments if segment.group_gpus > node.domain_gpus]
    why = (
        f"Links alone give {links:.0f}; in groups of a size data moves this many times as fast: "
        + ", ".join(f"{ratio:.1f} ({group} GPUs)" for group, ratio in ratios.items())
        + f". Only {' and '.join(beyond) or 'no work'} of the {len(segments)} kinds of work go beyond "
        f"{node.domain_gpus} GPUs, and exchange is a part of their time: hardware alone does {gains.min():.2f} to "
        f"{gains.max():.2f} times the work per hour."
    )
    text = f"Collectives of GB200 NVL72 are at least {claimed:.0f} times as fast as those of MI355X"
    return look.claim(text, claimed=claimed, measured=ratios[groups[-1]], unit="ratio", checks=checks, why=why)


def fp6(evidence: Evidence) -> Claim:
    """FP6 of MI355X against B200: twice on paper, less in use, and the model computes with FP8."""
    look = Look(evidence, "fp6")
    claimed, tolerance = look.fact("claimed_ratio"), look.fact("tolerance")
    amd, nvidia = (look.figures(sku, "fp6_tflops", used=False)[-1] for sku in ("MI355X", "B200"))
    in_use = look.fact("share_in_use") * amd / nvidia
    fp8 = look.figure("MI355X", "fp8_tflops") / look.figure("B200", "fp8_tflops")
    checks = [
        _near("peak rates", amd / nvidia, claimed, tolerance),
        _near("with what FP6 reaches in use", in_use, claimed, tolerance),
    ]
    why = (
        f"{amd:,.0f} over {nvidia:,.0f} TFLOPS is {amd / nvidia:.2f}; what FP6 reaches in use makes it {in_use:.2f} at "
        f"most. Throughput in this project is computed with FP8, where the ratio is {fp8:.2f}."
    )
    text = f"MI355X computes {claimed:.1f} times as fast as B200 in FP6"
    return look.claim(text, claimed=claimed, measured=amd / nvidia, unit="ratio", checks=checks, why=why)


def memory(evidence: Evidence) -> Claim:
    """Memory of MI355X against B200, and against what came later."""
    look = Look(evidence, "memory")
    large, small = look.fact("claimed_mi355x_gb"), look.fact("claimed_b200_gb")
    claimed = large / small
    amd, nvidia, next_one = (look.figure(sku, "hbm_gb") for sku in ("MI355X", "B200", "B300"))
    checks = [_near("usable capacity of B200", amd / nvidia, claimed, look.fact("tolerance"))]
    gain = [(amd / nvidia) ** segment.hbm_exponent for segment in evidence.tables.segments]
    why = (
        f"{amd:.0f} over {nvidia:.0f} GB. In throughput here memory size counts for {_percent(min(gain) - 1)} to "
        f"{_percent(max(gain) - 1)}. B300 has {next_one:.0f} GB, so that against it the ratio is {amd / next_one:.2f}."
    )
    text = f"MI355X has {large:.0f} GB of memory where B200 has {small:.0f}"
    return look.claim(text, claimed=claimed, measured=amd / nvidia, unit="ratio", checks=checks, why=why)


def mi300x_threshold(evidence: Evidence) -> Claim:
    """Rent at which MI300X ties H200, by segment."""
    look = Look(evidence, "mi300x_threshold")
    low, high = (look.fact(f"claimed_{end}_usd_per_gpu_hour") for end in ("low", "high"))
    tolerance, price = look.fact("tolerance"), look.fact("h200_usd_per_gpu_hour")
    scenario, tables = evidence.scenario, evidence.tables
    found = flip_prices(
        tables.skus,
        tables.segments,
        scenario.software,
        Switching(scenario.choice.port_cost, scenario.tenants.switching_cost),
        amd_sku=look.sku("MI300X").name,
        nvidia_sku=look.sku("H200").name,
        nvidia_price_usd_per_gpu_hour=price,
    )
    flips = {flip.segment: flip.flip_price_usd_per_gpu_hour for flip in found}
    inference = [name for name in flips if "inference" in name]
    checks = [Check(name, flips[name], low - tolerance, high + tolerance) for name in inference]
    listed = ", ".join(f"{name} {usd:.2f}" for name, usd in flips.items())
    why = (
        f"Per unit of work MI300X ties an H200 at {price:.2f} USD at these rents: {listed} USD. Only inference was "
        f"claimed; chat was later measured at {look.fact('chat_usd_per_gpu_hour'):.2f} USD. Lock-in and porting, which "
        "a tenant on CUDA pays on top, are left out here."
    )
    text = f"MI300X ties an H200 at {price:.2f} USD when it rents for {low:.2f} to {high:.2f} USD (inference)"
    best = max(flips[name] for name in inference)
    return look.claim(text, claimed=(low + high) / 2, measured=best, unit="USD/GPU-h", checks=checks, why=why)


def rack_scale(evidence: Evidence) -> Claim:
    """MI400 UALoE72 beside VR NVL144: links alike, cost as far as it can be known."""
    look = Look(evidence, "rack_scale")
    claimed, tolerance = look.fact("claimed_saving"), look.fact("tolerance")
    nvidia, amd = look.sku("VR200"), look.sku("MI400")
    saving = _saving(*_cost(evidence, nvidia, amd))
    domain, link = (
        look.figure("MI400", name) / look.figure("VR200", name) for name in ("domain_gpus", "scaleup_gb_per_s")
    )
    costs = evidence.scenario.costs
    ours = running_usd_per_gpu_hour([amd, nvidia], costs, costs.load_busy)
    theirs = [look.figures(sku, "running_cost_usd_per_gpu_hour", used=False)[-1] for sku in ("MI400", "VR200")]
    lowest, highest = look.fact("claimed_saving_low") - tolerance, claimed + tolerance
    checks = [
        _near("GPUs in the domain", domain, 1.0, tolerance),
        _near("bandwidth inside it", link, 1.0, tolerance),
        Check("saving of the owner", saving, lowest, highest),
    ]
    why = (
        f"The domains have {amd.domain_gpus} and {nvidia.domain_gpus} packages (144 counts dies); the ratio of their "
        f"links is {link:.2f} on paper. The cost parts of this project save {_percent(saving)}: they run MI400 at "
        f"{ours[0]:.2f} and VR200 at {ours[1]:.2f} USD per hour, where the article has {theirs[0]:.2f} and "
        f"{theirs[1]:.2f}. Capital of both is a placeholder."
    )
    text = f"MI400 UALoE72 equals VR NVL144 in GPUs and links and costs its owner {_percent(claimed)} less"
    return look.claim(text, claimed=claimed, measured=saving, unit="share", checks=checks, why=why)


def domain_256(evidence: Evidence) -> Claim:
    """MI500's domain of 256 packages beside the 144 of NVL576."""
    look = Look(evidence, "domain_256")
    ours, theirs = look.fact("claimed_mi500_packages"), look.fact("claimed_vr300_packages")
    claimed = ours / theirs
    tolerance = look.fact("tolerance")
    nvidia = look.figure("VR300", "domain_gpus")
    paper, small = (
        packages / nvidia
        for packages in (look.figure("MI500", "domain_gpus"), look.figures("MI500", "domain_gpus", used=False)[-1])
    )
    largest = max(segment.group_gpus for segment in evidence.tables.segments)
    groups = [largest, look.sku("MI500").domain_gpus]
    gains = _exchange_ratio(look.sku("MI500"), look.sku("VR300"), groups)
    checks = [
        _near("the concept", paper, claimed, tolerance),
        _near("its smaller variant", small, claimed, tolerance),
    ]
    why = (
        f"{paper:.2f} in concept, {small:.2f} for the smaller variant thought possible. The largest work group in the "
        f"segments has {largest} GPUs, where data moves {gains[0]:.1f} times as fast; a group of {groups[1]} would "
        f"gain {gains[1]:.1f} times. Both chips are announcements without price or volume."
    )
    text = f"MI500 joins {ours:.0f} packages in one domain, NVL576 only {theirs:.0f}"
    return look.claim(text, claimed=claimed, measured=paper, unit="ratio", checks=checks, why=why)


def rocm7(evidence: Evidence) -> Claim:
    """ROCm 7's gain as claimed and as the model has it."""
    look = Look(evidence, "rocm7")
    claimed, tolerance = look.fact("claimed_ratio"), look.fact("tolerance")
    weeks = int(look.fact("horizon_weeks"))
    segments, software = evidence.tables.segments, evidence.scenario.software
    start = maturity_start(segments, software)[VENDORS.index("amd")]
    in_time = later_maturity(segments, software, weeks) / start
    at_most = np.array([segment.software_ceiling for segment in segments]) / start
    reported = look.fact("reported_gain")
    checks = [
        _near("a gain reported later, chosen settings", reported, claimed, tolerance),
        _near(f"in the model, largest gain in {weeks} weeks", float(in_time.max()), claimed, tolerance),
        _near("in the model, largest gain ever", float(at_most.max()), claimed, tolerance),
    ]
    why = (
        f"The claim is of the maker, for chosen models, and nobody verified it; {reported:g} times was reported later "
        f"for chosen settings. The model does not use it: it lets AMD's software gain {in_time.min():.2f} to "
        f"{in_time.max():.2f} times in {weeks} weeks and {at_most.max():.2f} times at most, because maturity is the "
        f"share of the hardware's work that is reached and starts at {start.min():.2f} to {start.max():.2f}; "
        f"{claimed:g} times would be {claimed * start.min():.1f} of it or more."
    )
    text = f"ROCm 7 makes inference {claimed:g} times as fast as ROCm 6"
    return look.claim(text, claimed=claimed, measured=float(in_time.max()), unit="ratio", checks=checks, why=why)


# ------------------------------------------------------------------------------------------------ simulated


def _signed(effect: Effect, *, below: bool) -> Check:
    """Accord if the whole interval lies on one side of zero."""
    low, high = (None, 0.0) if below else (0.0, None)
    half = (effect.high - effect.low) / 2
    return Check(f"{effect.contrast} on {effect.metric}", effect.difference, low, high, half)


def _found(effect: Effect, factor: float = 1.0, unit: str = " USD") -> str:
    """An effect with its interval in words."""
    numbers = [f"{factor * value:+.2f}" for value in (effect.difference, effect.low, effect.high)]
    doubt = "" if effect.low > 0 or effect.high < 0 else ", not distinguishable from zero"
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]{unit}{doubt}"


def lepton(evidence: Evidence) -> Claim:
    """Lepton squeezes sellers' margins, and what it leaves AMD."""
    look = Look(evidence, "lepton")
    metrics = ("ebitda_margin[neocloud]", "amd_hour_share", "amd_shipment_share")
    margin, hours, shipments = (look.effect("effect of Lepton", metric) for metric in metrics)
    named, sellers = look.fact("sellers_named"), look.fact("nvidia_neoclouds")
    checks = [_signed(margin, below=True), _signed(hours, below=False), _signed(shipments, below=False)]
    why = (
        f"With Lepton neoclouds' EBITDA margin moves by {_found(margin, 100, ' points')}, AMD's share of GPU-hours by "
        f"{_found(hours, 100, ' points')}; its share of deliveries by {_found(shipments, 100, ' points')}; weeks "
        f"{margin.window_first} to {margin.window_last}, {margin.pairs} seeds, {100 * margin.level:g} % intervals. "
        f"{named:.0f} of more than {sellers:.0f} Nvidia neoclouds were named at its launch; here joining is drawn."
    )
    text = "Lepton squeezes neoclouds' margins and so opens a door for AMD"
    return look.claim(text, claimed=None, measured=margin.difference, unit="share", checks=checks, why=why)


def leaseback(evidence: Evidence) -> Claim:
    """AMD's leaseback brings more sellers of AMD GPUs and lower rents."""
    look = Look(evidence, "leaseback")
    contrast = "effect of leaseback"
    old, new, overall, dear = (
        look.effect(contrast, f"price_mean[{part}]")
        for part in ("MI300X", "MI355X", "MI355X, all", "MI355X, hyperscaler")
    )
    units = look.effect(contrast, "amd_unit_share")
    clouds = look.fact("recipients")
    checks = [_signed(old, below=True), _signed(new, below=True)]
    why = (
        f"List prices of neoclouds and marketplaces move by {_found(old)} (MI300X) and {_found(new)} (MI355X), weeks "
        f"{old.window_first} to {old.window_last}, {old.pairs} seeds, {100 * old.level:g} % intervals; they leave room "
        f"for a fall of {max(-old.low, -new.low, 0.0):.2f} USD. AMD's share of installed GPUs moves by "
        f"{_found(units, 100, ' points')}. The GPU-weighted mean list price of MI355X over all sellers moves by "
        f"{_found(overall)}, that of hyperscalers alone by {_found(dear)}: what the classes themselves do not explain "
        f"is where the GPUs stand. At least {clouds:.0f} clouds are named as recipients."
    )
    text = "AMD's leaseback lowers rents of AMD GPUs"
    return look.claim(text, claimed=None, measured=new.difference, unit="USD/GPU-h", checks=checks, why=why)


CLAIMS: Mapping[str, Callable[[Evidence], Claim]] = {
    "owners_cost": owners_cost,
    "power": power,
    "collectives": collectives,
    "fp6": fp6,
    "memory": memory,
    "mi300x_threshold": mi300x_threshold,
    "rack_scale": rack_scale,
    "domain_256": domain_256,
    "rocm7": rocm7,
    "lepton": lepton,
    "leaseback": leaseback,
}
"""Every claim by name."""

SIMULATED = ("lepton", "leaseback")
"""Those that rest on kept effects of a simulation."""


def judge(evidence: Evidence) -> list[Claim]:
    """All claims in the order of `CLAIMS`; without kept effects those that rest on them are left out."""
    left_out = () if evidence.effects is not None else SIMULATED
    return [claim(evidence) for name, claim in CLAIMS.items() if name not in left_out]
