"""Methods with profiles: the constructor comes from a dataclass of settings, None means profile."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from viewgap.errors import SettingError
from viewgap.methods.base import MultiViewClassifier

FIRST: dict[str, Any] = {"profile": "default", "random_state": None}
LAST: dict[str, Any] = {"views": None, "nan": "error", "on_empty": "error"}

Profiles = Mapping[str, Callable[[int], Any]]


@dataclass(frozen=True)
class DataSize:
    """What a profile may go by besides the number of labels: how much there is to learn from.

    `known_cells`: observed label cells; `columns`: of the widest view.
    """

    rows: int
    columns: int
    known_cells: int


class ProfiledClassifier(MultiViewClassifier):
    """Base of the published methods.

    A method names its `settings_type`, a dataclass whose fields become the parameters of its
    constructor, and its `profiles`: a name and what it sets, given the number of labels. A
    parameter left at None takes the profile's value; after `fit`, `settings_` shows what was used.
    `first` and `last` are the parameters that stand before and after the settings.
    """

    settings_type: ClassVar[type[Any]]
    profiles: ClassVar[Profiles]
    first: ClassVar[dict[str, Any]] = FIRST
    last: ClassVar[dict[str, Any]] = LAST

    profile: str
    settings_: Any

    def __init_subclass__(cls, **options: Any) -> None:
        """Give a method the constructor that its settings ask for."""
        super().__init_subclass__(**options)
        if "settings_type" in vars(cls):
            defaults = {**cls.first, **dict.fromkeys(cls._ordered_settings()), **cls.last}
            setattr(cls, "__init__", _constructor(cls.__name__, defaults))  # noqa: B010

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
        if self.profile not in self.profiles:
            raise SettingError(
                f"profile must be one of {tuple(self.profiles)}, found {self.profile!r}"
            )
        given = {f.name: getattr(self, f.name) for f in fields(self.settings_type)}
        known = plain_values({name: value for name, value in given.items() if value is not None})
        return replace(self._profile(n_labels, size), **known)


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are kept: lists, which users and JSON have, become tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


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
