"""What a parameter may be, said where it is declared, and one way to refuse everything else.

A constraint stands beside the type of a setting, `learning_rate: Annotated[float, Real(0, None)]`,
or in a table of parameters. It tells what was expected instead of a value, and how the value is
kept: numbers of numpy become Python's, lists become tuples. A bool is not a number here, a number
is finite, and text is never read as a number.
"""

from __future__ import annotations

import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NoReturn, get_args, get_origin, get_type_hints

import numpy as np

from viewgap.errors import SettingError, parameter

LARGEST = 1e38  # float32, in which networks compute, ends a little above
_LONGEST_SHOWN = 80


class Constraint(ABC):
    """What one parameter may be."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What is expected, to follow "must be"."""

    @abstractmethod
    def accepts(self, value: Any) -> bool:
        """Whether the parameter may have this value."""

    def expected(self, value: Any) -> str:
        """What is expected instead of this value."""
        return self.text

    def plain(self, value: Any) -> Any:
        """The value as it is kept."""
        return value


def check(name: str, constraint: Constraint, value: Any) -> Any:
    """Return the value as it is kept; SettingError if it is not what the constraint says."""
    if not constraint.accepts(value):
        refuse(name, constraint.expected(value), value)
    return constraint.plain(value)


def refuse(name: str, expected: str, value: Any) -> NoReturn:
    """Raise SettingError: what was expected of the parameter, and what was found."""
    shown = " ".join(repr(value).split())
    if len(shown) > _LONGEST_SHOWN:
        shown = shown[:_LONGEST_SHOWN] + "..."
    raise SettingError(f"{parameter(name)} must be {expected}, found {shown}")


# ---------------------------------------------------------------------- numbers


@dataclass(frozen=True)
class Integer(Constraint):
    """A whole number from `low` to `high`, both included; None is no limit."""

    low: int | None = None
    high: int | None = None

    @property
    def text(self) -> str:
        if self.low is None:
            return "a whole number" + ("" if self.high is None else f" of at most {self.high}")
        if self.high is None:
            return f"a whole number of at least {self.low}"
        return f"a whole number from {self.low} to {self.high}"

    def accepts(self, value: Any) -> bool:
        return _is_integer(value) and _inside(int(value), self.low, self.high)

    def plain(self, value: Any) -> int:
        return int(value)


@dataclass(frozen=True)
class Real(Constraint):
    """A finite number between `low` and `high`; `closed` says which ends belong to it.

    `closed` is `"both"`, `"left"`, `"right"` or `"neither"`; None is no limit.
    """

    low: float | None = None
    high: float | None = None
    closed: str = "both"

    @property
    def text(self) -> str:
        left, right = self.closed in ("both", "left"), self.closed in ("both", "right")
        if self.low is not None and self.high is not None:
            ends = f"{self.low:g}, {self.high:g}"
            return f"a number in {'[' if left else '('}{ends}{']' if right else ')'}"
        if self.low is not None:
            return f"a number {'of at least' if left else 'above'} {self.low:g}"
        if self.high is not None:
            return f"a number {'of at most' if right else 'below'} {self.high:g}"
        return "a number"

    def accepts(self, value: Any) -> bool:
        number = _as_float(value)
        if number is None or not abs(number) <= LARGEST:
            return False
        open_ends = {"both": (), "left": (self.high,), "right": (self.low,)}
        excluded = open_ends.get(self.closed, (self.low, self.high))
        return _inside(number, self.low, self.high) and number not in excluded

    def expected(self, value: Any) -> str:
        number = _as_float(value)
        if number is None:
            return self.text
        if not math.isfinite(number):
            return self.text.replace("a number", "a finite number")
        return self.text if abs(number) <= LARGEST else f"between -{LARGEST:g} and {LARGEST:g}"

    def plain(self, value: Any) -> float:
        return float(value)


@dataclass(frozen=True)
class Flag(Constraint):
    """True or False."""

    @property
    def text(self) -> str:
        return "True or False"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool | np.bool_)

    def plain(self, value: Any) -> bool:
        return bool(value)


# ---------------------------------------------------------------------- text


class Choice(Constraint):
    """One of some words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    @property
    def text(self) -> str:
        return f"one of {', '.join(map(repr, self.words))}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.words

    def plain(self, value: Any) -> str:
        return str(value)


class Device(Constraint):
    """A place to compute, as text or as a `torch.device`."""

    @property
    def text(self) -> str:
        return "'auto', 'cpu', 'cuda' or 'cuda:N'"

    def accepts(self, value: Any) -> bool:
        # Known by its module: torch is not imported for a check.
        named = isinstance(value, str) or type(value).__module__ == "torch"
        return named and re.fullmatch(r"auto|cpu|cuda(:\d{1,4})?", str(value)) is not None


# ---------------------------------------------------------------------- several


@dataclass(frozen=True)
class SequenceOf(Constraint):
    """A list, tuple or 1-D array of `least` to `most` values, kept as a tuple."""

    item: Constraint
    least: int
    most: int
    example: tuple[Any, ...]

    @property
    def text(self) -> str:
        count = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
        return f"a sequence such as {list(self.example)}, {count} values, each {self.item.text}"

    def accepts(self, value: Any) -> bool:
        is_array = isinstance(value, np.ndarray) and value.ndim == 1
        if not is_array and not isinstance(value, list | tuple):
            return False
        return self.least <= len(value) <= self.most and all(map(self.item.accepts, value))

    def plain(self, value: Any) -> tuple[Any, ...]:
        return tuple(self.item.plain(item) for item in value)


class AnyOf(Constraint):
    """What one of several constraints accepts."""

    def __init__(self, *kinds: Constraint) -> None:
        self.kinds = kinds

    @property
    def text(self) -> str:
        return " or ".join(kind.text for kind in self.kinds)

    def accepts(self, value: Any) -> bool:
        return any(kind.accepts(value) for kind in self.kinds)

    def plain(self, value: Any) -> Any:
        return next(kind for kind in self.kinds if kind.accepts(value)).plain(value)


@dataclass(frozen=True)
class OrNone(Constraint):
    """None, or what another constraint accepts.

    `meaning`: what messages say about None.
    """

    kind: Constraint
    meaning: str = ", or None"

    @property
    def text(self) -> str:
        return f"{self.kind.text}{self.meaning}"

    def accepts(self, value: Any) -> bool:
        return value is None or self.kind.accepts(value)

    def expected(self, value: Any) -> str:
        return f"{self.kind.expected(value)}{self.meaning}"

    def plain(self, value: Any) -> Any:
        return None if value is None else self.kind.plain(value)


# ---------------------------------------------------------------------- parameters of all methods


class RandomState(Constraint):
    """What scikit-learn takes as `random_state`, ints of any size, and numpy's Generator."""

    @property
    def text(self) -> str:
        return (
            "None, a whole number of at least 0, a numpy.random.RandomState or a "
            "numpy.random.Generator"
        )

    def accepts(self, value: Any) -> bool:
        if value is None or isinstance(value, np.random.RandomState | np.random.Generator):
            return True
        return _is_integer(value) and value >= 0

    def expected(self, value: Any) -> str:
        return "a whole number of at least 0" if _is_integer(value) else self.text


class Columns(Constraint):
    """`{name: columns}` for one table, or None."""

    @property
    def text(self) -> str:
        return "{name: columns}, the columns as a slice, numbers or names, or None"

    def accepts(self, value: Any) -> bool:
        if value is None:
            return True
        return isinstance(value, Mapping) and all(map(_are_columns, value.values()))


# ---------------------------------------------------------------------- declared beside types


@dataclass(frozen=True)
class Doc:
    """What a parameter or attribute is, for docstrings: `Annotated[int, Integer(1), Doc(...)]`."""

    text: str


def declared(annotated: Any) -> Mapping[str, Constraint]:
    """Return the constraints in the annotations of a class or function, by name.

    `Annotated[int, Integer(1)] | None` is a constraint that takes None too.
    """
    return _declared(annotated)


@cache
def _declared(annotated: Any) -> Mapping[str, Constraint]:
    hints = get_type_hints(annotated, include_extras=True)
    constraints = {name: _constraint_in(hint) for name, hint in hints.items()}
    return {name: own for name, own in constraints.items() if own is not None}


def descriptions(kind: type[Any]) -> dict[str, str]:
    """Return the texts of `Doc` in the annotations of a class and its bases, by name."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        hints = get_type_hints(base, include_extras=True)
        for name in inspect.get_annotations(base):
            texts.update((name, item.text) for item in get_args(hints[name]) if type(item) is Doc)
    return texts


def _constraint_in(hint: Any) -> Constraint | None:
    if get_origin(hint) is Annotated:
        return next((item for item in get_args(hint) if isinstance(item, Constraint)), None)
    parts = get_args(hint)
    if type(None) not in parts:
        return None
    inside = [own for own in map(_constraint_in, parts) if own is not None]
    return OrNone(inside[0]) if inside else None


# ---------------------------------------------------------------------- kinds of values


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _as_float(value: Any) -> float | None:
    """The number as a float, infinite where it is too large for one; None for anything else."""
    if not _is_integer(value) and not isinstance(value, float | np.floating):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _inside(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _are_columns(value: Any) -> bool:
    if isinstance(value, slice | str) or _is_integer(value):
        return True
    return isinstance(value, Sized) and hasattr(value, "__iter__") and not isinstance(value, bytes)
