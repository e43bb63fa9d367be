"""Where the templates of all HTML pages are filled: one style, every text escaped."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


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


def script_hash(script: str) -> str:
    """What a page says about the only script that it lets run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def trusted(text: str) -> Markup:
    """Text that stands on a page as it is: a file of this package, or a drawing that escapes."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - callers hand over nothing else
