"""The folder of a study, which several processes may work on at once, and Optuna inside it.

    study1/study.json           what is tuned, on which data: only the same goes on
    study1/journal.jsonl        every trial, written by Optuna, one line per event
    study1/claims/              which process runs which trial
    study1/best.json, trials.csv, study.svg

The journal is locked by the system (flock), so that a killed process leaves no lock behind; half a
line that it left is cut off. A trial whose process is gone is marked as failed: it does not count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import viewgap.strict_json as strict_json
from viewgap.bench.results.journal import cut, locked
from viewgap.bench.run.claims import Claims
from viewgap.checkpoints import read_json
from viewgap.errors import CheckpointError, RunError, parameter
from viewgap.fsio import TEMPORARY, make_folder, write_file
from viewgap.methods.fitting.checkpoint import brief, differing, shown_name
from viewgap.tuning.space import Space, combinations, distributions, to_optuna

STUDY, JOURNAL, LOCK, CLAIM_LOCK = "study.json", "journal.jsonl", "lock", "claims.lock"
BEST, TRIALS, PICTURE = "best.json", "trials.csv", "study.svg"
FORMAT = 1
_NAME = "viewgap"
_MOST_SHOWN = 5
_STARTUP = 8  # trials drawn at random before the sampler learns from their scores
_FEWEST_TO_PRUNE = 4  # completed trials that a running one is compared with


def require_optuna() -> None:
    """RunError where Optuna is not installed."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise RunError("tuning needs the package optuna: pip install 'viewgap[tune]'") from None


class StudyFolder:
    """A study on the disk; used as a context while this process works on it.

    The folder is made if it is not there. `identity` is what is tuned: `parameters` (method, fixed
    parameters, space, metric, seed) and `data`. `defaults` are the values of the first trial.
    """

    def __init__(
        self,
        path: Path,
        identity: Mapping[str, Any],
        space: Space,
        defaults: Mapping[str, Any],
        maximise: bool,
    ) -> None:
        self.path, self.space, self.maximise = path, space, maximise
        self._identity, self._defaults = identity, defaults
        self._seed = int(identity["parameters"]["random_state"])
        self._stack = ExitStack()

    def __enter__(self) -> StudyFolder:
        _check_folder(self.path)
        make_folder(self.path)
        with self._stack, _quiet_optuna():
            with self._locked():
                self._begin_or_refuse()
                self._study = self._open()
            claims = Claims(self.path, self.path / CLAIM_LOCK)
            self._claims = self._stack.enter_context(claims)
            self._stack.enter_context(_quiet_optuna())
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *details: object) -> None:
        self._stack.close()

    # ------------------------------------------------------------------ trials

    @property
    def trials(self) -> list[Any]:
        """All trials, finished or not, as Optuna's FrozenTrial."""
        return list(self._study.get_trials(deepcopy=False))

    def ask(self, most: int | None) -> Any:
        """Begin a trial; None where the study has, or will have, as many as are asked for.

        The first is the one with the defaults; it is repeated where its process died.
        """
        with self._locked():
            self._fail_abandoned()
            trials = self.trials
            if not any(is_default(t) and t.state.name != "FAIL" for t in trials):
                first = to_optuna(self.space, self._defaults)
                self._study.enqueue_trial(first, user_attrs={"default": True})
            elif _are_enough(trials, most) or not self._choose_next(trials):
                return None
            trial = self._study.ask(distributions(self.space))
            self._claims.take(_claim(trial.number))
            return trial

    def _choose_next(self, trials: list[Any]) -> bool:
        """Leave the next settings to the sampler; of few, take one that was not tried yet.

        False where all were tried. The seed goes by the number of the trial, so that two processes
        with one seed do not draw the same.
        """
        from optuna.samplers import TPESampler

        seed = np.random.default_rng([self._seed, len(trials)])
        every = combinations(self.space)
        if every is None:
            self._study.sampler = TPESampler(
                seed=int(seed.integers(2**32)), n_startup_trials=_STARTUP
            )
            return True
        tried = [t.params for t in trials if t.state.name != "FAIL" or t.user_attrs.get("refused")]
        left = [values for values in every if values not in tried]
        if left:
            self._study.enqueue_trial(left[int(seed.integers(len(left)))])
        return bool(left)

    def tell(
        self, trial: Any, state: str, value: float | None, reason: str = "", refused: bool = False
    ) -> None:
        """End a trial: "complete" with its score, "pruned" or "fail".

        `refused`: the settings cannot be fitted, and are not tried again.
        """
        from optuna.trial import TrialState

        if reason:
            trial.set_user_attr("reason", reason)
            trial.set_user_attr("refused", refused)
        self._study.tell(trial, value, state=TrialState[state.upper()], skip_if_finished=True)
        self._claims.release(_claim(trial.number))

    def _fail_abandoned(self) -> None:
        from optuna.trial import TrialState

        for trial in self.trials:
            name, running = _claim(trial.number), is_running(trial)
            # A process that was killed after its trial had ended leaves the claim alone.
            if not running and not (self._claims.folder / name).exists():
                continue
            # A claim that can be taken has no living process behind it.
            if self._claims.take(name):
                if running:
                    self._study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
                self._claims.release(name)

    # ------------------------------------------------------------------ files

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the study; of several processes, one at a time."""
        with self._locked():
            write_file(self.path / name, content)

    def _locked(self) -> Any:
        return locked(self.path / LOCK)

    def _begin_or_refuse(self) -> None:
        stored = self.path / STUDY
        if not stored.exists():
            write_file(stored, strict_json.dumps({"format": FORMAT, **self._identity}))
            return
        kept = read_study(self.path)
        differences = [
            f"{shown_name(name)} was {brief(before)}, and is {brief(now)} now"
            for name, before, now in differing(kept["parameters"], self._identity["parameters"])
        ]
        other_data = differing(kept["data"], self._identity["data"])
        differences += [f"other {name}" for name, _, _ in other_data]
        if differences:
            shown = "; ".join(differences[:_MOST_SHOWN])
            raise CheckpointError(
                f"{self.path} is the study of something else: {shown}. Go on with "
                "what it was begun with, or begin anew in another folder"
            )

    def _open(self) -> Any:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        path = self.path / JOURNAL
        try:
            storage = JournalStorage(JournalFileBackend(str(path), _JournalLock(path)))
            return optuna.create_study(
                storage=storage,
                study_name=_NAME,
                direction="maximize" if self.maximise else "minimize",
                pruner=optuna.pruners.MedianPruner(_FEWEST_TO_PRUNE),
                load_if_exists=True,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{path} is damaged ({str(error)[:100]}); begin anew in another folder"
            ) from error


class _JournalLock:
    """Optuna's lock of the journal, by the system: it ends with its process."""

    def __init__(self, path: Path) -> None:
        self._path, self._stack = path, ExitStack()

    def acquire(self) -> bool:
        """Wait for the journal; what a killed process left of a line is cut off."""
        cut(self._stack.enter_context(locked(self._path)))
        return True

    def release(self) -> None:
        """Let others write."""
        self._stack.close()


# ---------------------------------------------------------------------- what trials are


def counts(trial: Any) -> bool:
    """Whether a trial has a result: complete or given up because others were better."""
    return trial.state.name in ("COMPLETE", "PRUNED")


def _are_enough(trials: list[Any], most: int | None) -> bool:
    return most is not None and sum(counts(t) or is_running(t) for t in trials) >= most


def is_complete(trial: Any) -> bool:
    """Whether a trial has a score."""
    return bool(trial.state.name == "COMPLETE")


def is_running(trial: Any) -> bool:
    """Whether a trial has begun and not ended."""
    return bool(trial.state.name == "RUNNING")


def is_default(trial: Any) -> bool:
    """Whether a trial is that of the defaults."""
    return bool(trial.user_attrs.get("default"))


def read_study(path: Path) -> dict[str, Any]:
    """What a study is of."""
    found = read_json(path / STUDY)
    parts = [found.get(name) for name in ("parameters", "data")]
    if found.get("format") != FORMAT or not all(isinstance(part, dict) for part in parts):
        raise CheckpointError(
            f"{path / STUDY} was not written by this version of viewgap; begin anew in another "
            "folder"
        )
    return found


def _check_folder(path: Path) -> None:
    """Refuse a folder that holds something else."""
    if not path.is_dir() or (path / STUDY).exists():
        return
    # What begins so is being written by another process, or was by one that was killed.
    names = [e.name for e in path.iterdir() if not e.name.startswith(TEMPORARY)]
    entries = sorted(name for name in names if name != LOCK)
    if entries:
        raise CheckpointError(
            f"{path} holds {entries[0]!r} and no study; it is left as it is: choose another folder "
            f"({parameter('study_dir')})"
        )


def _claim(number: int) -> str:
    return f"trial-{number}"


@contextlib.contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Optuna tells of every study that it opens; that is no news here."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
