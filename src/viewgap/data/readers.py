"""The old place of `viewgap.data.formats`; it works for one more release, with a warning."""

from __future__ import annotations

import warnings
from typing import Any

from viewgap.data import formats
from viewgap.errors import ViewgapDeprecationWarning


def __getattr__(name: str) -> Any:
    if name.startswith("_"):  # what the import machinery asks for
        raise AttributeError(name)
    value = getattr(formats, name)
    warnings.warn(
        f"viewgap.data.readers.{name} is now viewgap.data.formats.{name}; the old place will be "
        "removed in the next release",
        ViewgapDeprecationWarning,
        stacklevel=2,
    )
    return value
