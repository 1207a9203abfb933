"""A report as a value: sections of paragraphs, tables, pictures; written as Markdown and as a page of HTML.

Texts are strings, `Mono`, `Strong` and `Link`, or tuples of these. The two templates say how each block looks;
nothing is computed there.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "Block",
    "Bullets",
    "Code",
    "Document",
    "Link",
    "Mono",
    "Paragraph",
    "Picture",
    "Section",
    "Strong",
    "Table",
    "Terms",
    "Text",
    "escaped",
    "plain",
]


class Link(NamedTuple):
    """A text that leads somewhere."""

    text: str
    address: str


class Mono(NamedTuple):
    """A name of the program: a file, a key, a command."""

    text: str


class Strong(NamedTuple):
    """A text that must not be missed."""

    text: str


Span: TypeAlias = str | Link | Mono | Strong
Text: TypeAlias = Span | tuple[Span, ...]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph."""

    kind: ClassVar[str] = "paragraph"
    text: Text


@dataclass(frozen=True)
class Bullets:
    """A list; that of the ``answers`` stands out."""

    kind: ClassVar[str] = "bullets"
    items: Sequence[Text]
    answers: bool = False


@dataclass(frozen=True)
class Table:
    """A table under a caption; one with ``folded`` opens at a click on that text.

    Attributes:
        head: of the columns.
        rows: cells, as many as the head has.
        caption: what it shows.
        folded: text to click on; blank: always open.
        numbers: number of columns, from the right, that hold numbers.
    """

    kind: ClassVar[str] = "table"
    head: Sequence[str]
    rows: Sequence[Sequence[Text]]
    caption: str = ""
    folded: str = ""
    numbers: int = 0

    def number_column(self, at: int) -> bool:
        """Whether the column at a place holds numbers."""
        return at >= len(self.head) - self.numbers


@dataclass(frozen=True)
class Picture:
    """A figure of ``figures/``: its SVG goes into the page, so that the page can travel alone."""

    kind: ClassVar[str] = "picture"
    name: str
    title: str
    caption: str
    alt: str
    svg: Path

    @property
    def data(self) -> str:
        """The SVG as an address that holds it."""
        return f"data:image/svg+xml;base64,{b64encode(self.svg.read_bytes()).decode()}"


@dataclass(frozen=True)
class Code:
    """Something to type."""

    kind: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True)
class Terms:
    """Words and what they mean."""

    kind: ClassVar[str] = "terms"
    items: Sequence[tuple[str, str]]


Block: TypeAlias = Paragraph | Bullets | Table | Picture | Code | Terms


@dataclass(frozen=True)
class Section:
    """A part with a heading; ``name`` is its anchor."""

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A whole report.

    Attributes:
        title: what it is about.
        lead: the question.
        warnings: what a reader must know before anything else: missing or failed runs.
        sections: in order.
    """

    title: str
    lead: str
    sections: Sequence[Section]
    warnings: Sequence[str] = field(default_factory=tuple)

    def html(self) -> str:
        """The report as one page of HTML that needs no other file."""
        return _environment().get_template("report.html").render(document=self)

    def markdown(self) -> str:
        """The report as Markdown; its pictures stand in ``figures/``."""
        return re.sub(r"\n{3,}", "\n\n", _environment().get_template("report.md").render(document=self)).strip() + "\n"


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    found = Environment(
        loader=PackageLoader("experiments.show"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {"spans": spans, "escaped": escaped, "cell": _cell}
    return found


def spans(text: Text) -> list[dict[str, Any]]:
    """Parts of a text for a template: ``text``, ``kind`` and, of a link, ``address``."""
    return [
        {
            "text": part if isinstance(part, str) else part.text,
            "kind": type(part).__name__.lower(),
            "address": part.address if isinstance(part, Link) else "",
        }
        for part in _parts(text)
    ]


def _parts(text: Text) -> tuple[Span, ...]:
    return (text,) if isinstance(text, str | Link | Mono | Strong) else text


def plain(text: Text) -> str:
    """A text without marks."""
    return "".join(part if isinstance(part, str) else part.text for part in _parts(text))


def escaped(text: str) -> str:
    """A text in Markdown that reads as it stands: nothing in it is a mark."""
    safe = re.sub(r"([\\`*<>|$])", r"\\\1", text)
    safe = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", safe)  # inside a word an underscore is one
    safe = safe.replace("](", "]\\(")
    safe = re.sub(r"^(\s*)([#+-])(\s)", r"\1\\\2\3", safe)
    return re.sub(r"^(\s*\d+)\.(\s)", r"\1\\.\2", safe)


def _cell(text: str) -> str:
    """A text in a cell of a Markdown table: one line, no bars of its own."""
    return " ".join(re.sub(r"(?<!\\)\|", r"\\|", text).split())
