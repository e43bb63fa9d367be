"""Where the templates of all HTML pages are filled: one style, every text escaped."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment(*packages: str) -> Environment:
    """The templates of these packages, then those of this one.

    Texts are escaped, and an unknown name is an error.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, __package__)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["percent"] = lambda value: f"{100 * value:.0f} %"
    return found
