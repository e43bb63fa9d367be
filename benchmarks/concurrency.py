"""Threads and processes on one model, one run folder, one study: is anything ever different?

    python -m benchmarks.concurrency
    python -m benchmarks.concurrency --predictions 100 --rounds 5 --only threads readers

`threads`    8 threads, so many predictions each, of ridge regression, a small SCSD, extra trees and
             an ensemble: every answer is compared to the bit with that of one thread.
`readers`    7 processes load a model again and again while an eighth saves other weights over it:
             every load must be one of the two models, whole.
`runs`       8 processes on one run folder: every task recorded once.
`fits`       8 processes on one checkpoint folder: one fits, the others are refused.
`study`      8 processes on one study: every trial told once, the number asked for.
`workers`    predictions in forked and in spawned processes, after torch has computed with threads
             in the parent: the same bits, and no process hangs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import viewgap
from benchmarks.experiments import keep
from viewgap.bench.results.journal import read_lines
from viewgap.bench.results.record import RECORDS
from viewgap.bench.run.runner import run_tasks
from viewgap.bench.run.task import Task
from viewgap.errors import CheckpointError, ViewgapWarning
from viewgap.model_file import load_model, save_model

N_PROCESSES = 8
PATIENCE = 600.0  # seconds until a process counts as hanging
SCSD = {"n_networks": 2, "hidden": (16,), "embedding": 16, "max_epochs": 2, "device": "cpu"}


def make_models() -> dict[str, Any]:
    """Small models, not fitted."""
    trees = {"n_estimators": 10, "n_jobs": 1}
    members: dict[str, Any] = {"late_fusion_ridge": {}, "scsd": SCSD, "extra_trees": trees}
    return {
        "late_fusion_ridge": viewgap.LateFusionRidge(),
        "scsd": viewgap.SCSD(**SCSD, random_state=0),
        "extra_trees": viewgap.ExtraTrees(**trees, random_state=0),
        "ensemble": viewgap.Ensemble(methods=members, random_state=0, device="cpu"),
    }


def make_data() -> tuple[Any, Any]:
    """Sixty samples, half of their views missing."""
    data = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
    return viewgap.amputate(data.views, data.labels, view_rate=0.5, label_rate=0.2)


def in_processes(work: Callable[..., Any], *arguments: Any, kind: str = "fork") -> list[Any]:
    """What so many processes answer to `work(number, *arguments)`; "hangs" of one that does not."""
    context = multiprocessing.get_context(kind)
    queues = [context.SimpleQueue() for _ in range(N_PROCESSES)]
    running = [
        context.Process(target=_answer, args=(queue, work, number, *arguments))
        for number, queue in enumerate(queues)
    ]
    for process in running:
        process.start()
    end = time.monotonic() + PATIENCE
    found = []
    for process, queue in zip(running, queues, strict=True):
        process.join(max(0.0, end - time.monotonic()))
        if process.is_alive():
            process.kill()
            found.append("hangs")
        else:
            found.append("died" if queue.empty() else queue.get())
    return found


def _answer(queue: Any, work: Callable[..., Any], number: int, *arguments: Any) -> None:
    queue.put(work(number, *arguments))


# ------------------------------------------------------------------ what is asked


def threads(predictions: int, rounds: int, folder: Path) -> list[dict[str, Any]]:
    """Answers of threads beside those of one."""
    X, Y = make_data()
    parts = [X[start : start + 1 + start % 4] for start in range(0, 48, 3)]
    lines = []
    for name, model in make_models().items():
        model.fit(X, Y)
        expected = [model.predict_proba(part) for part in parts]

        def differ(turn: int, model: Any = model, expected: list[Any] = expected) -> bool:
            number = turn % len(parts)
            return not np.array_equal(model.predict_proba(parts[number]), expected[number])

        with ThreadPoolExecutor(N_PROCESSES) as pool:
            wrong = sum(pool.map(differ, range(N_PROCESSES * predictions)))
        lines.append({"method": name, "predictions": N_PROCESSES * predictions, "differ": wrong})
    return lines


def _read_or_write(number: int, path: Path, rounds: int) -> Counter[str]:
    X, _ = make_data()
    models = [load_model(path.with_name(name)) for name in ("one", "other")]
    expected = [model.predict_proba(X) for model in models]
    seen: Counter[str] = Counter()
    for turn in range(rounds):
        if number == 0:
            save_model(models[turn % 2], path, overwrite=True)
            seen["writes"] += 1
            continue
        found = load_model(path).predict_proba(X)
        same = [np.array_equal(found, each) for each in expected]
        seen["one" if same[0] else "other" if same[1] else "neither"] += 1
    return seen


def readers(predictions: int, rounds: int, folder: Path) -> list[dict[str, Any]]:
    """Models that are loaded while they are replaced."""
    X, Y = make_data()
    for name, labels in (("one", Y), ("other", 1 - Y), ("model", Y)):
        save_model(viewgap.LateFusionRidge().fit(X, labels), folder / name)
    found = in_processes(_read_or_write, folder / "model", 10 * rounds)
    total: Counter[str] = sum((own for own in found if isinstance(own, Counter)), Counter())
    return [{"processes": len(found), **total, **_failed(found), "neither": total["neither"]}]


def _failed(found: list[Any]) -> dict[str, int]:
    return {word: found.count(word) for word in ("hangs", "died")}


def _tasks(n: int) -> list[Task]:
    options = {"n_samples": 40}
    return [Task("synthetic", "label_frequency", fold=f, dataset_options=options) for f in range(n)]


def _run(number: int, out: Path, n: int) -> int:
    return int(run_tasks(_tasks(n), out).done)


def runs(predictions: int, rounds: int, folder: Path) -> list[dict[str, Any]]:
    """Run folders that processes share: lines of the records, and tasks done by each."""
    n, once, done = 12, 0, 0
    failed: Counter[str] = Counter()
    for turn in range(rounds):
        out = folder / f"run{turn}"
        out.mkdir()
        found = in_processes(_run, out, n)
        lines = Counter(line["task"] for line in read_lines(out / RECORDS))
        once += lines == Counter(task.id for task in _tasks(n))
        done += sum(own for own in found if isinstance(own, int))
        failed.update(_failed(found))
    line = {"folders": rounds, "every task once": once, "tasks": n * rounds, "done": done}
    return [line | {"processes": N_PROCESSES} | failed]


def _fit_there(number: int, path: Path, gate: Any) -> str:
    X, Y = make_data()
    gate.wait(PATIENCE)
    try:
        viewgap.DDINet(max_epochs=3, random_state=0, device="cpu").fit(X, Y, checkpoint_dir=path)
    except CheckpointError as error:
        return "refused" if "another process" in str(error) or "already" in str(error) else "wrong"
    return "fitted"


def fits(predictions: int, rounds: int, folder: Path) -> list[dict[str, Any]]:
    """Checkpoint folders that processes want at the same moment."""
    X, Y = make_data()
    viewgap.DDINet(max_epochs=1, device="cpu").fit(X, Y)  # imports
    total: Counter[str] = Counter()
    for turn in range(rounds):
        gate = multiprocessing.get_context("fork").Barrier(N_PROCESSES)
        total.update(in_processes(_fit_there, folder / f"fit{turn}", gate))
    return [{"folders": rounds, "processes": N_PROCESSES, **total}]


def _search(number: int, path: Path, trials: int) -> str:
    X, Y = make_data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = {"max_iter": 50}
        viewgap.tune(X, Y, method="imputed_logistic", params=params, trials=trials, study_dir=path)
    return "ended"


def study(predictions: int, rounds: int, folder: Path) -> list[dict[str, Any]]:
    """One study: its trials, by state."""
    trials = 2 * N_PROCESSES
    found = in_processes(_search, folder / "study", trials)
    lines = (folder / "study" / "trials.csv").read_text().splitlines()
    states = Counter(line.split(",")[1] for line in lines[1:])
    line = {"processes": len(found), "ended": found.count("ended"), "asked": trials}
    return [line | {"trials": dict(states)}]


def _predict(number: int, path: Path) -> list[list[float]]:
    X, _ = make_data()
    many = X[np.arange(4000) % len(X)]  # blocks for several threads
    found: list[list[float]] = load_model(path).predict_proba(many)[: len(X)].tolist()
    return found


def workers(predictions: int, rounds: int, folder: Path) -> list[dict[str, Any]]:
    """Predictions of processes that are forked, and spawned, after torch computed with threads."""
    import torch

    X, Y = make_data()
    torch.set_num_threads(2)
    big = torch.randn(600, 600)
    (big @ big).sum().item()  # torch's threads are there from now on
    model = viewgap.SCSD(**SCSD, random_state=0).fit(X, Y)
    save_model(model, folder / "model")
    expected = model.predict_proba(X).tolist()
    lines = []
    for kind in ("fork", "spawn"):
        found = in_processes(_predict, folder / "model", kind=kind)
        equal = sum(own == expected for own in found)
        lines.append({"start": kind, "processes": len(found), "equal": equal, **_failed(found)})
    return lines


QUESTIONS = {f.__name__: f for f in (threads, readers, runs, fits, study, workers)}


def is_as_promised(question: str, line: dict[str, Any]) -> bool:
    """What the docstring of this file says of each."""
    if line.get("hangs") or line.get("died"):
        return False
    return {
        "threads": lambda: line["differ"] == 0,
        "readers": lambda: line["neither"] == 0,
        "runs": lambda: (
            line["every task once"] == line["folders"] and line["done"] == line["tasks"]
        ),
        "fits": lambda: line["fitted"] == line["folders"] and "wrong" not in line,
        "study": lambda: (
            sum(line["trials"].values()) == line["asked"] and line["ended"] == line["processes"]
        ),
        "workers": lambda: line["equal"] == line["processes"],
    }[question]()


def main() -> None:
    """Print the counts; the exit code is 1 where a promise is broken."""
    global N_PROCESSES
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--predictions", type=int, default=1000, help="of each thread")
    parser.add_argument("--rounds", type=int, default=50, help="folders that processes share")
    parser.add_argument("--processes", type=int, default=N_PROCESSES)
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--out", type=Path, help="JSON file for the counts")
    arguments = parser.parse_args()
    N_PROCESSES = arguments.processes
    warnings.simplefilter("ignore", ViewgapWarning)
    kept: dict[str, Any] = {}
    broken = False
    for question in arguments.only:
        with tempfile.TemporaryDirectory() as folder:
            lines = QUESTIONS[question](arguments.predictions, arguments.rounds, Path(folder))
        for line in lines:
            print(question, json.dumps(line), flush=True)
            broken |= not is_as_promised(question, line)
        kept[question] = lines
        keep(arguments.out, **kept)
    sys.exit(broken)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    main()
