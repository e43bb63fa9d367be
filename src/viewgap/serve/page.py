"""The page at `/`: one document with its style and script inside, and rows to begin with."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from viewgap.bench.show.page import environment, script_hash, trusted
from viewgap.serve import schemas
from viewgap.serve.answers import encoded
from viewgap.serve.models import LoadedModel
from viewgap.serve.service import Part, Route

if TYPE_CHECKING:
    from fastapi import Request, Response

_STYLES = (("viewgap.bench.show", "report.css"), ("viewgap.serve", "service.css"))
_DIGITS = 4


class Page(Part):
    """Answers for people."""

    def routes(self) -> list[Route]:
        """The addresses."""
        return [
            Route("GET", "/", self.page, schemas.PAGE),
            Route("GET", "/example", self.example, schemas.EXAMPLE),
        ]

    async def page(self, request: Request) -> Response:
        """The page for people.

        It says nothing of the models: it asks for them, with a token where one is wanted. Only its
        own style and script are allowed, by their hashes.
        """
        from fastapi import Response

        content, policy = _document()
        headers = {
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
        }
        return Response(content, headers=headers, media_type="text/html; charset=utf-8")

    async def example(self, request: Request) -> Any:
        """Rows to begin with, that `/predict` takes."""
        return encoded(example_rows(self._service.find_model(request)))


@cache
def _document() -> tuple[bytes, str]:
    style = "".join(_text(package, name) for package, name in _STYLES)
    script = _text("viewgap.serve", "service.js")
    template = environment("viewgap.serve").get_template("service.html.j2")
    content = template.render(style=trusted(style), script=trusted(script))
    policy = (
        "default-src 'none'; connect-src 'self'; img-src data:; "
        f"script-src '{script_hash(script)}'; style-src '{script_hash(style)}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return content.encode(), policy


def _text(package: str, name: str) -> str:
    return files(package).joinpath("templates", name).read_text("utf-8")


def example_rows(loaded: LoadedModel) -> dict[str, Any]:
    """Two rows that `/predict` takes, the second without the last view.

    Values are made up around the mean of each column in training, halfway to its ends at most;
    they are no sample of the training data.
    """
    draw = np.random.default_rng(0)
    first = {view: _values(loaded, j, draw) for j, view in enumerate(loaded.columns)}
    second = {view: _values(loaded, j, draw) for j, view in enumerate(loaded.columns)}
    if len(second) > 1:
        second[list(second)[-1]] = None
    return {"rows": [{"id": "example-1", "views": first}, {"id": "example-2", "views": second}]}


def _values(loaded: LoadedModel, place: int, draw: np.random.Generator) -> Any:
    names = list(loaded.columns.values())[place]
    ranges = loaded.fitted.column_ranges_
    step = draw.uniform(-0.5, 0.5, len(names))
    if ranges is None:  # a method that reads no values
        values = np.zeros(len(names))
    else:
        own = ranges.views[place]
        values = own.mean + step * np.where(step < 0, own.mean - own.low, own.high - own.mean)
    rounded = [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]
    if loaded.is_named(list(loaded.columns)[place]):
        return dict(zip(names, rounded, strict=True))
    return rounded
