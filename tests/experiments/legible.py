"""Whether a figure can be read: its texts, and which of them lie on one another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox


def texts(figure: Figure) -> Iterator[tuple[str, Bbox]]:
    """Every text that is seen, with its box in pixels; tick labels outside their axes are not drawn."""
    FigureCanvasAgg(figure).draw()
    hidden = {
        id(label)
        for panel in figure.axes
        for axis in (panel.xaxis, panel.yaxis)
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
        if not _within(tick.get_loc(), *axis.get_view_interval())
    }
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip() and id(text) not in hidden:
            yield text.get_text(), text.get_window_extent()


def _within(place: float, *ends: float) -> bool:
    return min(ends) - 1e-9 <= place <= max(ends) + 1e-9


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes share more than a pixel each way; rotated labels are seen by their anchors."""
    seen = list(texts(figure))
    return [
        (one, other)
        for (one, a), (other, b) in combinations(seen, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]


def outside(figure: Figure) -> list[str]:
    width, height = figure.bbox.width, figure.bbox.height
    return [
        text for text, box in texts(figure) if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]
