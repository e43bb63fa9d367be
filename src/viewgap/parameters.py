"""What settings may be: names for kinds of settings, and the base of the dataclasses of settings.

A setting is declared with its kind, `dropout: Share = 0.3`; a method with a constructor of its own
annotates its parameters in the same way. Limits above are where a value can only be a mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from typing import Annotated, Any, TypeVar

import numpy as np

from viewgap.constraints import Constraint, Flag, Integer, Real, SequenceOf, check, declared, refuse
from viewgap.search import SearchRange

Seed = int | np.random.RandomState | np.random.Generator | None
"""What `random_state` may be."""
T = TypeVar("T")

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


def check_parameters(values: Mapping[str, Any], constraints: Mapping[str, Constraint]) -> None:
    """Refuse the first parameter that is not what its constraint says."""
    for name, value in values.items():
        if name in constraints:
            check(name, constraints[name], value)


def setting(default: T, doc: str, search: SearchRange | None = None) -> T:
    """A field of a dataclass of settings, with the description that docstrings show.

    `search`: where `tune` looks for better values.
    """
    value: T = field(default=default, metadata={"doc": doc, "search": search})
    return value


def setting_docs(settings_type: type[Any]) -> dict[str, str]:
    """Return the descriptions of the settings by name; a new default keeps the old description."""
    texts: dict[str, str] = {}
    for base in reversed(settings_type.__mro__):
        own = [f for f in fields(base) if "doc" in f.metadata] if is_dataclass(base) else []
        texts |= {f.name: f.metadata["doc"] for f in own}
    return texts


class CheckedSettings:
    """Base of the dataclasses of settings: whoever makes one, it is checked.

    That is the user's choice in `fit` as well as what a model file says.
    """

    def __post_init__(self) -> None:
        for name, constraint in declared(type(self)).items():
            plain = check(name, constraint, getattr(self, name))
            object.__setattr__(self, name, plain)
        self._check_together()

    def _check_together(self) -> None:
        """Refuse settings that are fine each for itself and do not go together."""

    def _refuse(self, name: str, expected: str) -> None:
        refuse(name, expected, getattr(self, name))
