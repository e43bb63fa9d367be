"""Bases of the published methods: profiles of settings, and what the solvers among them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from viewgap.constraints import Choice, Constraint, Doc, OrNone, declared
from viewgap.deprecation import current_names
from viewgap.errors import SettingError
from viewgap.methods.base import MultiViewClassifier
from viewgap.parameters import CheckedSettings
from viewgap.state import State

_MOST_BYTES = 2 << 30  # of matrices labels x labels
WITHOUT_THEM = "use a method without them, such as MTD or late-fusion ridge"


@dataclass(frozen=True)
class DataSize:
    """What a profile may go by besides the number of labels: how much there is to learn from.

    `label_entries`: observed entries of the labels.
    """

    rows: int
    label_entries: int


Profile = CheckedSettings | Callable[[int, DataSize | None], CheckedSettings]
"""The settings, or a function of the number of labels and the size of the data that makes them."""

# Data of all sorts, as far as profiles tell them apart: some settings go together on some of it.
_TRIALS = ((200, None), (2, None), (2, DataSize(rows=100, label_entries=200)))


class ProfiledClassifier(MultiViewClassifier):
    """Base of the published methods.

    A method names its `settings_type`, a dataclass whose fields are parameters of its constructor
    with None as default, and its `profiles`. A parameter left at None takes the profile's value.
    """

    settings_type: ClassVar[type[Any]]
    profiles: ClassVar[Mapping[str, Profile]]

    profile: Annotated[str, Doc("Values of the parameters that are left at None.")]
    settings_: Annotated[Any, Doc("Settings of the fit: the profile, and what was set instead.")]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The profile, and the parameters that differ from it."""
        given = self.get_params(deep=False)
        defaults = self._get_param_defaults()
        differs = [name for name, value in given.items() if value is not defaults[name]]
        shown = ["profile", *(name for name in differs if name != "profile")]
        text = f"{type(self).__name__}({', '.join(f'{n}={given[n]!r}' for n in shown)})"
        return text if len(text) <= N_CHAR_MAX else text[:N_CHAR_MAX] + "..."

    @classmethod
    def _profile(cls, name: str, n_labels: int, size: DataSize | None) -> Any:
        """What a profile sets, given the number of labels and perhaps more about the data."""
        profile = cls.profiles[name]
        return profile(n_labels, size) if callable(profile) else profile

    @classmethod
    def _profile_trials(cls) -> dict[str, list[Any]]:
        return {name: [cls._profile(name, *trial) for trial in _TRIALS] for name in cls.profiles}

    def _resolve(self, n_labels: int, size: DataSize | None = None) -> Any:
        """The settings of this fit: the profile, and what the user set instead."""
        given = {f.name: getattr(self, f.name) for f in fields(self.settings_type)}
        set_by_user = {name: value for name, value in given.items() if value is not None}
        return replace(self._profile(self.profile, n_labels, size), **set_by_user)

    def _stored_settings(self, stored: Mapping[str, Any]) -> Any:
        """The settings of a model file, which may have been written under old names."""
        names = [f.name for f in fields(self.settings_type)]
        return self.settings_type(**current_names(stored, names, warn=False))

    @classmethod
    def _constraints(cls) -> Mapping[str, Constraint]:
        # None, which leaves a setting to the profile, is the default: no message speaks of it.
        own = {n: OrNone(c, meaning="") for n, c in declared(cls.settings_type).items()}
        return {**super()._constraints(), "profile": Choice(*cls.profiles), **own}

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


class SolverClassifier(ProfiledClassifier):
    """Base of the solvers. After `fit` they tell how it ended, and never pretend convergence."""

    converged_: Annotated[bool, Doc("Whether `residual_` is below the tolerance.")]
    n_iter_: Annotated[int, Doc("Number of iterations.")]
    objective_: Annotated[list[float], Doc("Value of the objective after every iteration.")]
    residual_: Annotated[float, Doc("What the last iteration changed.")]

    def _iterate(self, step: Callable[[], tuple[float, float]]) -> None:
        """Repeat a step, which returns the objective and its change, until that is small."""
        self.objective_, self.converged_ = [], False
        while len(self.objective_) < self.settings_.max_iter and not self.converged_:
            objective, self.residual_ = step()
            self.objective_.append(objective)
            self.converged_ = self.residual_ < self.settings_.tolerance
        self.n_iter_ = len(self.objective_)

    def _metadata(self) -> dict[str, Any]:
        """Settings and course of the fit, for `_get_state`."""
        return {
            "settings": asdict(self.settings_),
            "converged": self.converged_,
            "objective": self.objective_,
            "residual": self.residual_,
        }

    def _set_metadata(self, state: State) -> None:
        self.settings_ = self._stored_settings(state.metadata["settings"])
        if state.metadata["converged"] not in (True, False):
            raise ValueError("converged must be true or false")
        self.converged_ = bool(state.metadata["converged"])
        if not isinstance(state.metadata["objective"], list):
            raise ValueError("objective must be a list of numbers")
        self.objective_ = [float(value) for value in state.metadata["objective"]]
        self.n_iter_ = len(self.objective_)
        self.residual_ = float(state.metadata["residual"])


def relative_change(
    iterate: Callable[[], float], objective: float
) -> Callable[[], tuple[float, float]]:
    """Steps of a solver whose change is that of its objective, as a share of the one before."""

    def step() -> tuple[float, float]:
        nonlocal objective
        last, objective = objective, iterate()
        return objective, abs(last - objective) / max(abs(last), np.finfo(np.float64).tiny)

    return step


def check_label_matrices(
    method: str, count: float, n_labels: int, remedy: str = WITHOUT_THEM
) -> None:
    """Refuse, before anything is made, what would not fit into memory.

    `count`: how many (c, c) matrices of four bytes a number the method keeps at a time, about.
    """
    needed = 4 * n_labels**2 * count
    if needed > _MOST_BYTES:
        raise SettingError(
            f"{method} compares labels with labels, which takes {needed / 2**30:.1f} GiB for "
            f"{n_labels} labels (limit {_MOST_BYTES / 2**30:.0f} GiB); {remedy}"
        )
