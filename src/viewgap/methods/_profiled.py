"""Methods with profiles: the constructor comes from a dataclass of settings, None means profile."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from viewgap.constraints import Choice, Constraint, OrNone
from viewgap.deprecation import current_names
from viewgap.errors import SettingError
from viewgap.methods.base import MultiViewClassifier
from viewgap.parameters import COMMON, constraints_of

FIRST: dict[str, Any] = {"profile": "default", "random_state": None}
LAST: dict[str, Any] = {"views": None, "nan": "mean", "on_empty": "error"}

Profiles = Mapping[str, Callable[[int], Any]]


@dataclass(frozen=True)
class DataSize:
    """What a profile may go by besides the number of labels: how much there is to learn from.

    `known_cells`: observed label cells; `columns`: of the widest view.
    """

    rows: int
    columns: int
    known_cells: int


# Data of all sorts, as far as profiles tell them apart: some settings go together on some of it.
_TRIALS = ((200, None), (2, None), (2, DataSize(rows=100, columns=10, known_cells=200)))


class ProfiledClassifier(MultiViewClassifier):
    """Base of the published methods.

    A method names its `settings_type`, a dataclass whose fields become the parameters of its
    constructor, and its `profiles`: a name and what it sets, given the number of labels. A
    parameter left at None takes the profile's value; after `fit`, `settings_` shows what was used.
    `first` and `last` are the parameters that stand before and after the settings, and `common`
    what they may be.
    """

    settings_type: ClassVar[type[Any]]
    profiles: ClassVar[Profiles]
    first: ClassVar[dict[str, Any]] = FIRST
    last: ClassVar[dict[str, Any]] = LAST
    common: ClassVar[Mapping[str, Constraint]] = COMMON

    profile: str
    settings_: Any

    def __init_subclass__(cls, **options: Any) -> None:
        """Give a method the constructor that its settings ask for."""
        if "settings_type" in vars(cls):
            defaults = {**cls.first, **dict.fromkeys(cls._ordered_settings()), **cls.last}
            setattr(cls, "__init__", _constructor(cls.__name__, defaults))  # noqa: B010
        super().__init_subclass__(**options)

    def __init__(self, **parameters: Any) -> None:
        raise TypeError("a method needs a settings_type")  # for type checkers: never called

    @classmethod
    def _ordered_settings(cls) -> Sequence[str]:
        """Names of the settings in the order of the constructor."""
        return [f.name for f in fields(cls.settings_type)]

    def _profile(self, n_labels: int, size: DataSize | None) -> Any:
        """What the profile sets, given the number of labels and perhaps more about the data."""
        return self.profiles[self.profile](n_labels)

    def _resolve(self, n_labels: int, size: DataSize | None = None) -> Any:
        """The settings of this fit: the profile, and what the user set instead."""
        given = {f.name: getattr(self, f.name) for f in fields(self.settings_type)}
        known = {name: value for name, value in given.items() if value is not None}
        return replace(self._profile(n_labels, size), **known)

    def _stored_settings(self, stored: Mapping[str, Any]) -> Any:
        """The settings of a model file, which may have been written under old names."""
        names = [f.name for f in fields(self.settings_type)]
        return self.settings_type(**current_names(stored, names, warn=False))

    @classmethod
    def _constraints(cls) -> Mapping[str, Constraint]:
        settings = constraints_of(cls.settings_type).items()
        # None, which leaves a setting to the profile, is the default: no message speaks of it.
        own = {name: OrNone(constraint, meaning="") for name, constraint in settings}
        return {**cls.common, "profile": Choice(*cls.profiles), **own}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_settings_together()

    def _check_settings_together(self) -> None:
        """Refuse settings that do not go together, whatever the data."""
        refusals = []
        for n_labels, size in _TRIALS:
            try:
                self._resolve(n_labels, size)
            except SettingError as error:
                refusals.append(error)
        if len(refusals) == len(_TRIALS):
            raise refusals[0]


def _constructor(method: str, defaults: Mapping[str, Any]) -> Callable[..., None]:
    """An `__init__` that only stores, with these keywords; scikit-learn reads its signature."""

    def __init__(self: Any, **parameters: Any) -> None:  # noqa: N807
        for name in parameters:
            if name not in defaults:
                raise TypeError(
                    f"{method} has no parameter {name!r}; it has: {', '.join(defaults)}"
                )
        for name, default in defaults.items():
            setattr(self, name, parameters.get(name, default))

    kind = inspect.Parameter.KEYWORD_ONLY
    keywords = [inspect.Parameter(name, kind, default=value) for name, value in defaults.items()]
    start = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    setattr(__init__, "__signature__", inspect.Signature([start, *keywords]))  # noqa: B010
    return __init__
