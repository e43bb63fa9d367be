"""What the methods that are solvers share: profiles, and saying whether they converged."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from viewgap.methods._profiled import ProfiledClassifier
from viewgap.state import State


class SolverClassifier(ProfiledClassifier):
    """Base of the solvers. After `fit` they tell how it ended, and never pretend convergence.

    `objective_`: its value after every iteration, `n_iter_` of them; `residual_`: what the last
    one changed, which is below the tolerance if `converged_`.
    """

    random_state: Any

    converged_: bool
    n_iter_: int
    objective_: list[float]
    residual_: float

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
