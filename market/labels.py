"""Words in recorded tables: names and classes of sellers, SKUs and their vendors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from market.suppliers import PROVIDER_CLASSES

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["Columns", "Labels", "Words", "labels_of"]

Words: TypeAlias = NDArray[Any]
Columns: TypeAlias = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Labels:
    """What rows are called.

    Attributes:
        names, classes: Of suppliers, ``(suppliers,)``.
        heavy: Vendor of at least half of a supplier's opening GPUs, ``amd`` or ``nvidia``, ``(suppliers,)``.
        skus, vendors: Of SKUs, ``(skus,)``.
    """

    names: Words
    classes: Words
    heavy: Words
    skus: Words
    vendors: Words


def labels_of(model: MarketModel) -> Labels:
    """Labels of a market at its opening."""
    s, skus = model.suppliers, model.tables.skus
    amd = s.installed_gpus[:, model.hardware.is_amd].sum(axis=1)
    mostly_amd = np.where(s.opening_gpus > 0.0, amd >= 0.5 * s.opening_gpus, ~s.runs_nvidia)
    return Labels(
        names=np.array(s.names),
        classes=np.array(PROVIDER_CLASSES)[s.provider_class],
        heavy=np.where(mostly_amd, "amd", "nvidia"),
        skus=np.array([sku.name for sku in skus]),
        vendors=np.array([sku.vendor for sku in skus]),
    )
