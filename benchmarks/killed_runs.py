"""Two processes on one experiment, comparison or study, one of them killed: is anything different?

    python -m benchmarks.killed_runs
    python -m benchmarks.killed_runs --kills 3 --only bench

Two processes begin the same work in one folder; one is killed by SIGKILL at a random time, the
other goes on, and once more the same is asked for, as a user would. For `bench` and `compare` every
task must then be recorded once, with the metrics, bit by bit, of a run that nobody disturbed. What
a search proposes depends on the trials it has seen, and so on who was killed when: of `tune`, the
number of ended trials and the score of the defaults are compared with those of an undisturbed
study, and the score of the best trial with that of its settings, cross-fitted anew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a forked process has only one of the threads

import viewgap
from benchmarks.experiments import forked, keep
from viewgap.bench.results.journal import read_lines
from viewgap.bench.results.record import RECORDS, read_records
from viewgap.bench.run.runner import run_tasks
from viewgap.bench.run.task import Task
from viewgap.errors import ViewgapWarning
from viewgap.tuning import trials
from viewgap.tuning.score import cross_fitted, measure

TRIALS = 6
METHODS = ("label_frequency", "late_fusion_ridge", "extra_trees")
QUICK = {"extra_trees": {"n_estimators": 5, "n_jobs": 1}}


def _data() -> tuple[Any, Any]:
    data = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
    return viewgap.amputate(data.views, data.labels, view_rate=0.3, label_rate=0.2)


def bench(folder: Path) -> None:
    """An experiment of twelve tasks."""
    options = {"n_samples": 60}
    tasks = [
        Task("synthetic", name, fold=fold, dataset_options=options, params=QUICK.get(name, {}))
        for fold in range(4)
        for name in METHODS
    ]
    run_tasks(tasks, folder)


def compare(folder: Path) -> None:
    """A comparison of three methods on twelve folds in all."""
    X, Y = _data()
    chosen = {name: QUICK.get(name, {}) for name in METHODS}
    viewgap.compare(X, Y, methods=chosen, folds=4, out=folder)


def tune(folder: Path) -> Any:
    """A study of six trials."""
    X, Y = _data()
    params = {"max_iter": 50}
    return viewgap.tune(
        X, Y, method="imputed_logistic", params=params, trials=TRIALS, study_dir=folder
    )


WORK: dict[str, Callable[[Path], Any]] = {"bench": bench, "compare": compare, "tune": tune}


def start(kind: str, folder: Path) -> int:
    """The work in a process of its own, silent; its number."""

    def work() -> None:
        told = os.open(_told(folder), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(told, 2)
        try:
            WORK[kind](folder)
        except BaseException:
            traceback.print_exc()
            raise

    return forked(work)


def _told(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.log")


def ended(process: int, folder: Path) -> None:
    """Wait for a process, which must have ended well."""
    _, status = os.waitpid(process, 0)
    if status:
        sys.exit(f"a process ended with status {status}:\n{_told(folder).read_text()[-3000:]}")


def result(kind: str, folder: Path) -> Any:
    """What must be equal."""
    if kind != "tune":
        once = Counter(line["task"] for line in read_lines(folder / RECORDS))
        return sorted(
            (record.task, once[record.task], sorted(record.metrics.items()))
            for record in read_records(folder)
        )
    found = tune(folder)
    states = found.trials["state"].isin(["complete", "pruned"]).sum()
    model = found.estimator
    data = trials._checked_data(model, *_data())
    answers = cross_fitted(model, data, found.metric, lambda *_: None, None, quiet=True)
    again = measure(found.metric, data.labels, answers).value
    return int(states), found.default_score, found.best_score == again


def kill_one_of_two(kind: str, kills: int, chance: random.Random) -> dict[str, Any]:
    """How often the end was that of an unbroken run."""
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held, kind)
        begin = time.monotonic()
        ended(start(kind, folder), folder)
        seconds = time.monotonic() - begin
        whole = result(kind, folder)
    killed = equal = 0
    while killed < kills:
        with tempfile.TemporaryDirectory() as held:
            folder = Path(held, kind)
            pair = [start(kind, folder) for _ in range(2)]
            time.sleep(chance.uniform(0, seconds))
            os.kill(pair[0], signal.SIGKILL)
            _, status = os.waitpid(pair[0], 0)
            ended(pair[1], folder)
            ended(start(kind, folder), folder)
            if os.WIFSIGNALED(status):
                killed += 1
                equal += result(kind, folder) == whole
            else:
                seconds *= 0.8  # it had ended: other work on the machine had made the first slow
    return {"work": kind, "kills": killed, "equal": equal}


def main() -> None:
    """Print the counts; the exit code is 1 where an end differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20, help="of each kind of work")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--out", type=Path, help="JSON file for the counts")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ViewgapWarning)
    chance, lines = random.Random(arguments.seed), []
    for kind in arguments.only:
        lines.append(kill_one_of_two(kind, arguments.kills, chance))
        print(json.dumps(lines[-1]), flush=True)
        keep(arguments.out, lines=lines)
    sys.exit(any(line["equal"] != line["kills"] for line in lines))


if __name__ == "__main__":
    main()
