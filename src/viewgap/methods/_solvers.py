"""What the methods that are solvers share: profiles, and saying whether they converged."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from viewgap.constraints import Doc
from viewgap.methods._profiled import ProfiledClassifier
from viewgap.state import State


class SolverClassifier(ProfiledClassifier):
    """Base of the solvers. After `fit` they tell how it ended, and never pretend convergence."""

    converged_: Annotated[bool, Doc("Whether `residual_` is below the tolerance.")]
    n_iter_: Annotated[int, Doc("Number of iterations.")]
    objective_: Annotated[list[float], Doc("Value of the objective after every iteration.")]
    residual_: Annotated[float, Doc("What the last iteration changed.")]

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
        self.converged_ = bool(state.metadata["converged"])
        if not isinstance(state.metadata["objective"], list):
            raise ValueError("objective must be a list of numbers")
        self.objective_ = [float(value) for value in state.metadata["objective"]]
        self.n_iter_ = len(self.objective_)
        self.residual_ = float(state.metadata["residual"])
