"""What settings may be: names for kinds of settings, and the base of the dataclasses of settings.

A setting is declared with its kind, `dropout: Share = 0.3`; a method with a constructor of its own
annotates its parameters in the same way. Limits above are where a value can only be a mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from viewgap.constraints import (
    Choice,
    Columns,
    Constraint,
    Flag,
    Integer,
    RandomState,
    Real,
    SequenceOf,
    check,
    declared,
    refuse,
)

MOST_UNITS = 1_000_000
MOST_LAYERS = 100
MOST_NETWORKS = 1_000
MOST_STEPS = 10_000

# ---------------------------------------------------------------------- kinds of settings

Positive = Annotated[float, Real(0, None, closed="neither")]
NonNegative = Annotated[float, Real(0, None)]
Fraction = Annotated[float, Real(0, 1)]
Share = Annotated[float, Real(0, 1, closed="left")]
"""A share that is never everything."""
Switch = Annotated[bool, Flag()]
Count = Annotated[int, Integer(1)]
CountOrZero = Annotated[int, Integer(0)]
Units = Annotated[int, Integer(1, MOST_UNITS)]
"""The size of a layer or of a code."""
Steps = Annotated[int, Integer(1, MOST_STEPS)]
"""Steps inside an iteration, or draws inside a step: of these there are few."""
Layers = Annotated[tuple[int, ...], SequenceOf(Integer(1, MOST_UNITS), 1, MOST_LAYERS, (64,))]
AnyLayers = Annotated[tuple[int, ...], SequenceOf(Integer(1, MOST_UNITS), 0, MOST_LAYERS, (64,))]
"""Hidden layers, of which there need not be any."""

# ---------------------------------------------------------------------- parameters of all methods

COMMON: Mapping[str, Constraint] = {
    "views": Columns(),
    "nan": Choice("mean", "error", "missing_view"),
    "on_empty": Choice("error", "prior"),
    "random_state": RandomState(),
}


def check_parameters(values: Mapping[str, Any], constraints: Mapping[str, Constraint]) -> None:
    """Refuse the first parameter that is not what its constraint says."""
    for name, value in values.items():
        if name in constraints:
            check(name, constraints[name], value)


_declared = cache(declared)


def constraints_of(annotated: Any) -> Mapping[str, Constraint]:
    """The constraints that a class of settings, or a constructor, declares."""
    return _declared(annotated)


class CheckedSettings:
    """Base of the dataclasses of settings: whoever makes one, it is checked.

    That is the user's choice in `fit` as well as what a model file says.
    """

    def __post_init__(self) -> None:
        for name, constraint in constraints_of(type(self)).items():
            plain = check(name, constraint, getattr(self, name))
            object.__setattr__(self, name, plain)
        self._check_together()

    def _check_together(self) -> None:
        """Refuse settings that are fine each for itself and do not go together."""

    def _refuse(self, name: str, expected: str) -> None:
        refuse(name, expected, getattr(self, name))
