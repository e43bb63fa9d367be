"""`tune`: trials of settings, one after the other, until there are enough or time is over."""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.base import clone

import viewgap.strict_json as strict_json
from viewgap.bench.run.execute import make_method
from viewgap.constraints import Integer, OrNone, Real, check
from viewgap.data.fingerprint import fingerprint
from viewgap.data.validation import as_labels
from viewgap.errors import LabelError, RunError, SettingError, ViewgapWarning, printable
from viewgap.interruption import OutOfTimeError, raise_if_requested
from viewgap.methods.base import MultiViewClassifier
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.estimator.one_label import as_column, find_classes, is_one_label
from viewgap.methods.fitting.checkpoint import parameters_of
from viewgap.methods.fitting.processes import refuse_group
from viewgap.metrics import get_metric
from viewgap.tuning.picture import draw_study
from viewgap.tuning.result import (
    Tuning,
    as_settings,
    best_of,
    default_of,
    error_between,
    trial_table,
)
from viewgap.tuning.score import PATIENCE, Data, choose_metric, cross_fitted, measure
from viewgap.tuning.space import from_optuna, make_space
from viewgap.tuning.study import (
    BEST,
    PICTURE,
    TRIALS,
    StudyFolder,
    is_complete,
    is_default,
    require_optuna,
)

DEFAULT_TRIALS = 50
_MOST_FAILURES = 10  # one after the other
_WAIT_SECONDS = 0.2


def tune(
    X: Any,
    y: Any = None,
    *,
    method: str = "scsd",
    params: Mapping[str, Any] | None = None,
    profile: str = "default",
    study_dir: str | Path | None = None,
    trials: int | None = None,
    time_budget: float | None = None,
    metric: str | None = None,
    search: Sequence[str] | None = None,
    random_state: int = 0,
    verbose: bool = False,
) -> Tuning:
    """Look for better settings of a method, by their score on rows that are not fitted on.

    The defaults are always tried first, so that what is found is never worse on the same rows.
    Optuna's TPE sampler proposes the next settings; a network that is worse than the median of
    the others at the same epoch is given up. Needs the extra `viewgap[tune]`.

    Parameters
    ----------
    X : ViewSet, dict, list, array or DataFrame
        The views, as `fit` takes them. Only give rows that may be learned from, no test rows.
    y : array or DataFrame of shape (n_samples, n_labels), or 1-D
        0, 1, and NaN where a label was not observed.
    method : str, default="scsd"
        A method that declares search ranges.
    params : dict, optional
        Parameters that all trials have; a setting named here is not searched.
    profile : str, default="default"
        The profile whose values are the defaults.
    study_dir : str or path, optional
        Folder in which the study is kept. One that is there goes on, if data, method and space are
        the same; several processes may work on it at once. Without it nothing is kept.
    trials : int, optional
        Number of trials that the study is to have in all; 50 if there is no `time_budget` either.
    time_budget : float, optional
        Seconds after which no trial begins and a running one is given up; the trial of the defaults
        is always completed.
    metric : str, optional
        What to compare, a metric by name (variant `clean`). AP, or macro AUC for a single label.
    search : sequence of str, optional
        The settings to search; all with a range if not given.
    random_state : int, default=0
        Seed of the fits and of the search.
    verbose : bool, default=False
        Whether to print a line per trial on stderr.

    Returns
    -------
    Tuning

    Examples
    --------
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
    >>> found = viewgap.tune(data.views, data.labels, method="late_fusion_ridge", trials=1)
    >>> found.best_params  # with one trial, nothing but the defaults was tried
    {}
    """
    require_optuna()
    refuse_group("tune", "study_dir")
    budget = _Budget.checked(trials, time_budget)
    seed = check("random_state", Integer(0, 2**32 - 1), random_state)
    fixed = dict(params or {})
    model = make_method(method, profile, fixed, {"random_state": seed})
    model._check_machine()
    data = _checked_data(model, X, y)
    chosen = choose_metric(data.labels, metric)
    space, defaults = make_space(model, data.labels, fixed, search)
    identity = {
        "parameters": {
            **parameters_of(model),
            "metric": chosen,
            "search": {name: strict_json.plain(own.describe()) for name, own in space.items()},
            "random_state": seed,
        },
        "data": fingerprint(data.views, data.labels),
    }
    with ExitStack() as stack:
        place = study_dir or stack.enter_context(tempfile.TemporaryDirectory())
        maximise = get_metric(chosen).greater_is_better
        same = strict_json.loads(strict_json.dumps(identity))  # as it will be read
        folder = StudyFolder(Path(place), same, space, defaults, maximise)
        stack.enter_context(folder)
        names = set(model._get_param_names())
        given = {k: v for k, v in {"profile": profile, "random_state": seed}.items() if k in names}
        kept_in = None if study_dir is None else Path(study_dir)
        work = _Work(folder, model, data, method, chosen, given | fixed, kept_in, verbose)
        return work.run(budget)


@dataclass(frozen=True)
class _Budget:
    """How many trials in all, and until when (`time.monotonic`)."""

    trials: int | None
    deadline: float | None

    @classmethod
    def checked(cls, trials: int | None, seconds: float | None) -> _Budget:
        trials = check("trials", OrNone(Integer(1)), trials)
        seconds = check("time_budget", OrNone(Real(0, None, closed="neither")), seconds)
        if trials is None and seconds is None:
            trials = DEFAULT_TRIALS
        return cls(trials, None if seconds is None else time.monotonic() + seconds)

    def is_over(self, durations: Sequence[float]) -> bool:
        """Whether a trial as long as the usual one would end too late."""
        if self.deadline is None or not durations:
            return False
        return time.monotonic() + statistics.median(durations) > self.deadline


def _checked_data(model: MultiViewClassifier, X: Any, y: Any) -> Data:
    """The rows with a view, as `fit` would check them."""
    if y is None:
        raise LabelError("tune requires y to be passed, but the target y is None")
    views = model._as_views(X, model.nan)
    labels = as_labels(as_column(y, find_classes(y)) if is_one_label(y) else y, views)
    views, labels = model._drop_rows_without_views(views, labels)
    model._check_views_can_be_learned(views)
    return Data(views.with_fixed_row_order(), labels)


class _PrunedError(Exception):
    """A trial is given up: others were better at the same step."""


@dataclass(frozen=True)
class _Work:
    """The trials of this process."""

    folder: StudyFolder
    model: MultiViewClassifier
    data: Data
    method: str
    metric: str
    params: dict[str, Any]
    kept_in: Path | None
    verbose: bool

    def run(self, budget: _Budget) -> Tuning:
        """Work until the budget is used up; the result of all processes so far."""
        failures = 0
        while not budget.is_over(self._durations()):
            raise_if_requested()
            trial = self.folder.ask(budget.trials)
            if trial is None:
                break
            failures = 0 if self._run_trial(trial, budget.deadline) else failures + 1
            self._write()
            if failures == _MOST_FAILURES:
                reason = self.folder.trials[trial.number].user_attrs.get("reason", "")
                raise RunError(f"{failures} trials failed one after the other, the last: {reason}")
        while default_of(self.folder.trials) is None:
            self._wait_for_default()
        return self._finish()

    def _wait_for_default(self) -> None:
        """Another process has it, or had it when it died; then it is begun here."""
        raise_if_requested()
        trial = self.folder.ask(most=0)
        if trial is None:
            time.sleep(_WAIT_SECONDS)
        else:
            self._run_trial(trial, None)

    def _durations(self) -> list[float]:
        done = [trial.duration for trial in self.folder.trials if is_complete(trial)]
        return [own.total_seconds() for own in done if own is not None]

    # ------------------------------------------------------------------ one trial

    def _run_trial(self, trial: Any, deadline: float | None) -> bool:
        """False where the settings could not be fitted: a failed trial, and the search goes on."""
        first = is_default(trial)
        own = from_optuna(self.folder.space, trial.params)
        trial.set_user_attr("params", own)
        model = clone(self.model)
        if not first:  # the defaults are left to the method: they may go by the size of its data
            model.set_params(**own)
        state, value, reason, refused = "fail", None, "", False
        try:
            value = self._score(trial, model, None if first else deadline)
            state = "complete"
        except _PrunedError:
            state = "pruned"
        except OutOfTimeError:
            reason = "the time was over"
        except (SettingError, RunError) as error:
            reason, refused = str(error), True
            if first:
                raise
        except BaseException as error:
            reason = f"interrupted ({type(error).__name__})"
            raise
        finally:
            self.folder.tell(trial, state, value, reason, refused)
        self._say(trial.number, state, value, own, reason)
        return not refused

    def _score(self, trial: Any, model: MultiViewClassifier, deadline: float | None) -> float:
        first = is_default(trial)
        reports: list[int] = []  # a slow beginning is no reason to give up
        fewest = PATIENCE[isinstance(model, DeepClassifier)]

        def report(score: float, step: int) -> None:
            if not math.isnan(score):
                trial.report(score, step)
                reports.append(step)
                if not first and len(reports) >= fewest and trial.should_prune():
                    raise _PrunedError

        answers = cross_fitted(model, self.data, self.metric, report, deadline, quiet=not first)
        score = measure(self.metric, self.data.labels, answers)
        trial.set_user_attr("without_block", strict_json.plain(score.without_block))
        return score.value

    def _say(
        self, number: int, state: str, value: float | None, own: Mapping[str, Any], reason: str
    ) -> None:
        if not self.verbose:
            return
        best = best_of(self.folder.trials, self.folder.maximise)
        score = state if value is None else f"{self.metric} {value:.4f}"
        so_far = "" if best is None else f" (best {best.value:.4f}, trial {best.number})"
        text = reason or " ".join(as_settings(own))
        print(printable(f"trial {number}: {score}{so_far} {text}"), file=sys.stderr, flush=True)

    # ------------------------------------------------------------------ results

    def _result(self) -> Tuning | None:
        trials = self.folder.trials
        default, best = default_of(trials), best_of(trials, self.folder.maximise)
        if default is None:
            return None
        same = is_default(best)
        return Tuning(
            self.method,
            self.metric,
            {} if same else dict(best.user_attrs["params"]),
            best.value,
            default.value,
            float("nan") if same else error_between(best, default),
            best.number,
            trial_table(trials, self.folder.space),
            self.params,
            self.kept_in,
            self.folder.space,
        )

    def _write(self) -> Tuning | None:
        result = self._result()
        if result is not None and self.kept_in is not None:
            table = result.trials.to_csv(index=False)
            self.folder.write(TRIALS, table.encode())
            self.folder.write(BEST, strict_json.dumps(result.to_dict()))
        return result

    def _finish(self) -> Tuning:
        result = self._write()
        assert result is not None  # noqa: S101  (the defaults have a score)
        if self.kept_in is not None:
            try:
                self.folder.write(PICTURE, draw_study(result))
            except RunError as error:
                warnings.warn(f"no picture of the study: {error}", ViewgapWarning, stacklevel=4)
        if result.best_params and result.is_within_noise:
            warnings.warn(
                f"the best trial is better than the defaults by {result.gain:.4f}, with a standard "
                f"error of {result.standard_error:.4f}: the difference is within the noise, and "
                "the defaults may be as good on new samples",
                ViewgapWarning,
                stacklevel=4,
            )
        return result
