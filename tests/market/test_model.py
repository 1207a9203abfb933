"""The model as an object: what it leaves behind."""

from __future__ import annotations

import gc
import weakref

from tests.worlds import few_sellers, played


def test_a_model_that_is_done_with_is_freed() -> None:
    """Otherwise the memory of a sweep's workers grows run by run."""
    reference = weakref.ref(played(few_sellers(), weeks=1))
    gc.collect()
    assert reference() is None
