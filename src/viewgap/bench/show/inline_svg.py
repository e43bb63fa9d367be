"""Figures of results as SVG that can stand inside a page, several of them beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from viewgap.bench.results.record import Record
from viewgap.bench.show.figures import Drawing, drawings
from viewgap.bench.show.style import matplotlib_ready, rendered

if TYPE_CHECKING:
    from markupsafe import Markup

PIXELS_PER_POINT = 96 / 72
_LEFT_OUT = {"metadata", "style"}  # a style inside a drawing would be one of the whole page


@dataclass(frozen=True)
class InlineFigure:
    """A drawing ready for the page: kind, markup, what it is, and its natural width in pixels."""

    kind: str
    svg: Markup
    label: str
    width: int


def inline_figures(records: Sequence[Record]) -> list[InlineFigure]:
    """What `bench plot` draws."""
    with matplotlib_ready():
        return [_figure(drawing, number) for number, drawing in enumerate(drawings(records))]


def _figure(drawing: Drawing, number: int) -> InlineFigure:
    text = rendered(drawing.figure, ("svg",))["svg"].decode()
    svg, width = inline_svg(text, f"figure{number + 1}-")
    return InlineFigure(drawing.kind, svg, drawing.name.replace("_", " "), width)


def inline_svg(text: str, prefix: str) -> tuple[Markup, int]:
    """The drawing as markup for an HTML page, and its width in pixels.

    It is parsed and written anew, so that text stays text whatever a data set is called;
    `prefix` keeps its ids apart from those of other drawings.
    """
    from markupsafe import Markup

    root = Xml.fromstring(text)  # noqa: S314 - drawn a moment ago, by matplotlib
    width = round(float(root.attrib["viewBox"].split()[2]) * PIXELS_PER_POINT)
    for name in ("width", "height"):  # the page decides
        root.attrib.pop(name, None)
    _clean(root, prefix)
    return Markup(Xml.tostring(root, encoding="unicode")), width  # noqa: S704 - escaped above


def _clean(element: Xml.Element, prefix: str) -> None:
    """HTML knows no namespaces; references inside the drawing follow the renamed ids."""
    element.tag = _local(element.tag)
    element.attrib = {
        _local(name): _renamed(_local(name), value, prefix)
        for name, value in element.attrib.items()
    }
    for child in list(element):
        if _local(child.tag) in _LEFT_OUT:
            element.remove(child)
        else:
            _clean(child, prefix)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _renamed(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if name == "href" and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    return value.replace("url(#", f"url(#{prefix}") if name in _REFERENCES else value


_REFERENCES = {"clip-path", "style", "fill", "stroke"}
