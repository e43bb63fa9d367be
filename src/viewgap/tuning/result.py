"""What tuning found: the winner beside the default, the trials, and the commands that use it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viewgap import methods
from viewgap.methods.base import MultiViewClassifier
from viewgap.metrics import get_metric
from viewgap.notebook import card, soft, table
from viewgap.search import Options
from viewgap.strict_json import plain
from viewgap.tuning.score import difference_error
from viewgap.tuning.space import Space
from viewgap.tuning.study import is_complete, is_default

if TYPE_CHECKING:
    import pandas as pd

_STANDARD_ERRORS = 2.0
_MOST_LINES = 5


@dataclass(frozen=True, eq=False)
class Tuning:
    """The result of `tune`.

    Attributes
    ----------
    method : str
        Name of the method.
    metric : str
        What was compared, on predictions of rows that a model was not fitted on.
    best_params : dict
        The searched settings of the best trial; empty if the defaults are best.
    best_score, default_score : float
        Scores of the best trial and of the defaults. The best one was chosen among all trials on
        these rows: expect a little less of it for new samples.
    standard_error : float
        Of the difference between the two, over blocks of rows; NaN if the default is best.
    best_trial : int
        Number of the best trial.
    trials : DataFrame
        A line per trial: number, state, score, seconds, epochs or parts reported, settings, reason.
    params : dict
        The parameters that were given to all trials.
    study_dir : Path or None
        The folder of the study.
    """

    method: str
    metric: str
    best_params: dict[str, Any]
    best_score: float
    default_score: float
    standard_error: float
    best_trial: int
    trials: pd.DataFrame
    params: dict[str, Any]
    study_dir: Path | None
    space: Space

    @property
    def gain(self) -> float:
        """How much better the best trial is than the default, 0 or more."""
        sign = 1.0 if get_metric(self.metric).greater_is_better else -1.0
        return sign * (self.best_score - self.default_score)

    @property
    def is_within_noise(self) -> bool:
        """Whether the gain is smaller than two standard errors."""
        return not self.gain > _STANDARD_ERRORS * self.standard_error

    @property
    def estimator(self) -> MultiViewClassifier:
        """An estimator with the best settings, not fitted."""
        kind = methods.get(self.method)
        return kind(**self.params | self.best_params)

    @property
    def settings(self) -> list[str]:
        """The best settings as the command line takes them: `key=value`."""
        return as_settings(self.best_params)

    @property
    def summary(self) -> str:
        """Winner and default in one line."""
        default = f"{self.metric} {self.default_score:.4f} with the defaults"
        n_trials = f"{int(self.trials['state'].isin(['complete', 'pruned']).sum())} trials"
        if not self.best_params:
            return f"{default}: the best of {n_trials}"
        gain = f"better by {self.gain:.4f}, standard error {self.standard_error:.4f}"
        score = f"{self.metric} {self.best_score:.4f} in trial {self.best_trial} of {n_trials}"
        return f"{score}, {default}: {gain}"

    def best_lines(self) -> list[dict[str, Any]]:
        """The default and the best trials: trial, score, seconds and settings, for people."""
        better = get_metric(self.metric).greater_is_better
        done = self.trials[self.trials["state"] == "complete"]
        done = done.sort_values(["default", "score"], ascending=[False, not better], kind="stable")
        names = ["trial", "score", "seconds", *self.space]
        lines: list[Any] = done.head(1 + _MOST_LINES).astype(object)[names].to_dict("records")
        return [
            {**line, "trial": f"{line['trial']} (default)" if not place else str(line["trial"])}
            | {name: _text(line[name]) for name in self.space}
            for place, line in enumerate(lines)
        ]

    def _repr_html_(self) -> str:
        """Winner, default and the best trials, for notebooks."""
        lines = self.best_lines()
        use = f"use it: {', '.join(self.settings)}" if self.settings else ""
        noise = "; within the noise of two standard errors" if self.is_within_noise else ""
        return card(
            f"<b>Tuning</b> {soft(self.method)}",
            table(list(lines[0]), [list(line.values()) for line in lines]),
            f"<div>{soft(self.summary + noise * bool(self.best_params))}</div>",
            f"<div>{soft(use)}</div>",
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the trials as plain values; what is not a number is None."""
        error = plain(self.standard_error)
        return {
            "method": self.method,
            "metric": self.metric,
            "best": {
                "trial": self.best_trial,
                "score": self.best_score,
                "params": {name: plain(v) for name, v in self.best_params.items()},
                "set": self.settings,
            },
            "default": {"score": self.default_score},
            "gain": self.gain,
            "standard_error": error,
            "within_noise": self.is_within_noise,
            "trials": {str(k): int(v) for k, v in self.trials["state"].value_counts().items()},
        }

    def __str__(self) -> str:
        return "\n".join([self.summary, *(f"--set {text}" for text in self.settings)])

    def __repr__(self) -> str:
        return f"Tuning({self.method}: {self.summary})"


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def as_settings(params: Mapping[str, Any]) -> list[str]:
    """Parameters as `--set` takes them; what is not text is JSON."""
    return [f"{k}={v if isinstance(v, str) else json.dumps(plain(v))}" for k, v in params.items()]


def fit_command(data: str, method: str, settings: Sequence[str], options: Sequence[str]) -> str:
    """The command that fits a model with these settings."""
    words = ["viewgap", "fit", data, "--out", "MODEL", "--method", method, *options]
    return shlex.join([*words, *(word for text in settings for word in ("--set", text))])


def best_of(trials: Sequence[Any], maximise: bool) -> Any:
    """The best complete trial, of equal ones the default, then the first; None without any."""
    complete = [trial for trial in trials if is_complete(trial)]
    sign = -1.0 if maximise else 1.0
    return min(complete, key=lambda t: (sign * t.value, not is_default(t), t.number), default=None)


def default_of(trials: Sequence[Any]) -> Any:
    """The complete trial of the defaults; None if there is none."""
    return next((t for t in trials if is_default(t) and is_complete(t)), None)


def error_between(first: Any, second: Any) -> float:
    """Standard error of the difference of two trials' scores."""
    kept = [trial.user_attrs.get("without_block") or [None] for trial in (first, second)]
    one, other = ([np.nan if v is None else v for v in values] for values in kept)
    return difference_error(one, other) if len(one) == len(other) else float("nan")


def trial_table(trials: Sequence[Any], space: Space) -> pd.DataFrame:
    """A line per trial that has begun."""
    import pandas as pd

    names = ["trial", "state", "score", "seconds", "steps", "default", *space, "reason"]
    lines = [_line(trial, space) for trial in trials if trial.state.name != "WAITING"]
    return pd.DataFrame(lines, columns=names)


def _line(trial: Any, space: Space) -> list[Any]:
    taken = trial.duration.total_seconds() if trial.duration else None
    params = trial.user_attrs.get("params") or {}
    values = [params.get(name) for name in space]
    shown = [
        json.dumps(v) if isinstance(own, Options) and isinstance(v, list) else v
        for v, own in zip(values, space.values(), strict=True)
    ]
    return [
        trial.number,
        trial.state.name.lower(),
        trial.value if is_complete(trial) else None,
        None if taken is None else round(taken, 2),
        len(trial.intermediate_values),
        is_default(trial),
        *shown,
        trial.user_attrs.get("reason", ""),
    ]
