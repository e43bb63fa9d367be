"""Where `tune` looks for a better value of a setting, declared beside the setting.

`dropout: Share = setting(0.3, "...", search=Range(0, 0.7))` for a setting of a profile,
`C: Annotated[Positive, Doc("..."), LogRange(1e-4, 1)]` for a parameter of a constructor. A setting
without a range is never changed. Ranges always hold the default, so that it can be compared with
what is found.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

_DIGITS = 3  # of values that are tried: what is printed is what was measured


class SearchRange(ABC):
    """Values of one setting that are worth trying."""

    @abstractmethod
    def including(self, default: Any) -> SearchRange | None:
        """These values and the default; None where the default rules a search out."""

    @abstractmethod
    def describe(self) -> list[Any]:
        """The range as plain values that tell it from others."""


@dataclass(frozen=True)
class Range(SearchRange):
    """Numbers from `low` to `high`; with `log`, as many between 1 and 2 as between 10 and 20."""

    low: float
    high: float
    log: bool = False

    def including(self, default: Any) -> Range | None:
        """Wider where the default lies outside; a weight of 0, a part switched off, stays 0."""
        if not _is_number(default) or (self.log and default <= 0):
            return None
        return type(self)(min(self.low, default), max(self.high, default), self.log)

    def describe(self) -> list[Any]:
        """See `SearchRange`."""
        return [type(self).__name__, self.low, self.high, self.log]

    def plain(self, value: float) -> float:
        """The value that is tried, with few digits."""
        return float(f"{value:.{_DIGITS}g}")


@dataclass(frozen=True)
class IntegerRange(Range):
    """Whole numbers from `low` to `high`."""

    low: int
    high: int
    log: bool = False

    def including(self, default: Any) -> Range | None:
        """As for numbers; a default that is no whole number means something else."""
        return super().including(default) if isinstance(default, int) else None

    def plain(self, value: float) -> int:
        """The value that is tried."""
        return int(value)


@dataclass(frozen=True)
class Around(SearchRange):
    """Numbers up to `factor` times smaller or larger than the default, whatever that is."""

    factor: float

    def including(self, default: Any) -> Range | None:
        """The range around this default."""
        if not _is_number(default) or default <= 0:
            return None
        low, high = default / self.factor, default * self.factor
        return Range(float(f"{low:.{_DIGITS}g}"), float(f"{high:.{_DIGITS}g}"), log=True)

    def describe(self) -> list[Any]:
        """See `SearchRange`."""
        return ["Around", self.factor]


class Options(SearchRange):
    """One of some values."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def including(self, default: Any) -> Options:
        """The default is one of them."""
        return self if default in self.values else Options(default, *self.values)

    def describe(self) -> list[Any]:
        """See `SearchRange`."""
        return ["Options", *self.values]

    def __repr__(self) -> str:
        return f"Options({', '.join(map(repr, self.values))})"


def search_ranges(method: type[Any]) -> dict[str, SearchRange]:
    """Return the ranges that a method declares, by the name of the parameter.

    Examples
    --------
    >>> import viewgap
    >>> search_ranges(viewgap.ExtraTrees)["max_features"]
    Range(low=0.05, high=1.0, log=True)
    """
    hints = get_type_hints(method, include_extras=True)
    found = {name: own for name, hint in hints.items() if (own := _range_in(hint)) is not None}
    for base in reversed(getattr(method, "settings_type", object).__mro__):
        settings = fields(base) if is_dataclass(base) else ()
        # A new default in a subclass keeps the range of the setting.
        found |= {f.name: f.metadata["search"] for f in settings if f.metadata.get("search")}
    return found


def _range_in(hint: Any) -> SearchRange | None:
    parts = get_args(hint) if get_origin(hint) is Annotated else ()
    return next((item for item in parts if isinstance(item, SearchRange)), None)


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)
