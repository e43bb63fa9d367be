"""An ensemble by 1, 2 and 4 processes of this machine: who fits what, and how long it takes.

    python -m benchmarks.ensemble_processes --out benchmarks/ensemble_processes.json

Two ensembles on generated data, every process with one thread: the members of the default on few
rows, where an epoch has few steps, and a committee of networks that takes longer than all else.
Each by the split that the library chooses, by the other that it could have chosen, and with members
dealt out by their number. `processor`: seconds of processor time of every process; the longest is
what a fit takes where each has a core. Seconds by the clock mean that only on as many free cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import viewgap
from benchmarks.machine import machine_name
from viewgap.ensemble import dealing, estimator, members
from viewgap.ensemble.dealing import Costs, Split
from viewgap.training.processes import process_group

SPLITS = {"chosen": "auto", "one process each": "share", "committee by all": "deal", "number": ""}
ONE = {"n_jobs": 1}
RIDGE: dict[str, dict[str, Any]] = {"late_fusion_ridge": {"features": "auto"}}
DEFAULT: dict[str, dict[str, Any]] = {
    "extra_trees": ONE,
    **RIDGE,
    "gradient_boosting": ONE,
    "scsd": {},
    "random_forest": ONE,
}


class Case(NamedTuple):
    """Rows, columns of the views, labels; the members, and splits beside the one that is chosen."""

    rows: int
    dims: tuple[int, ...]
    labels: int
    members: dict[str, dict[str, Any]]
    other: str


CASES = {
    "short epochs": Case(400, (60, 40, 30), 8, DEFAULT, "committee by all"),
    "long epochs": Case(
        1500,
        (40, 30),
        6,
        {"scsd": {"max_epochs": 20}, **RIDGE, "extra_trees": {**ONE, "n_estimators": 20}},
        "one process each",
    ),
}


def data(name: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    n, dims, labels, *_ = CASES[name]
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(n, 10))
    views = {}
    for number, d in enumerate(dims):
        values = hidden @ rng.normal(size=(10, d)) + 2 * rng.normal(size=(n, d))
        values[(rng.random(n) < 0.3) & (np.arange(n) % len(dims) != number)] = np.nan
        views[f"v{number}"] = values.astype(np.float32)
    Y = (hidden @ rng.normal(size=(10, labels)) > 1).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    return views, Y


def by_number(costs: Mapping[str, Costs], processes: int, committee: str = "auto") -> Split:
    """Member k by process k modulo their number."""
    return Split({name: number % processes for number, name in enumerate(costs)})


def fit(name: str) -> dict[str, Any]:
    """Seconds of this process, and of the members that it has fitted; a digest of the model."""
    seconds: dict[str, float] = {}
    plain = members.fit_member

    def timed(member: str, *rest: Any) -> Any:
        start = time.process_time()
        found = plain(member, *rest)
        seconds[member] = round(time.process_time() - start, 2)
        return found

    estimator.fit_member = timed  # type: ignore[assignment, attr-defined]
    views, Y = data(name)
    busy, clock = time.process_time(), time.perf_counter()
    model = viewgap.Ensemble(methods=CASES[name].members, random_state=0, device="cpu")
    model.fit(views, Y)
    times = {"processor": time.process_time() - busy, "clock": time.perf_counter() - clock}
    answers = np.ascontiguousarray(model.predict_proba(views))
    rounded = {key: round(value, 2) for key, value in times.items()}
    return {**rounded, "members": seconds, "answers": float(answers.sum()).hex()}


def work(rank: str, world_size: str, place: str, name: str, split: str) -> None:
    """One process; it prints what it has measured."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if not SPLITS[split]:
        dealing.Split.of = by_number  # type: ignore[method-assign]
    environment = {"RANK": rank, "WORLD_SIZE": world_size}
    environment |= {"MASTER_ADDR": f"file://{place}", "MASTER_PORT": "0"}
    committee = SPLITS[split] or "share"
    with process_group("gloo", committee=committee, environment=environment):
        print(json.dumps(fit(name)))


def measure(world_size: int, name: str, split: str) -> list[dict[str, Any]]:
    """What so many new processes have measured."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        start = [sys.executable, "-m", "benchmarks.ensemble_processes", "--worker"]
        rest = [str(world_size), str(Path(folder) / "meeting"), name, split]
        workers = [
            subprocess.Popen([*start, str(r), *rest], stdout=subprocess.PIPE, env=environment)
            for r in range(world_size)
        ]
        try:
            said = [worker.communicate(timeout=600)[0] for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
    if any(worker.returncode for worker in workers):
        raise SystemExit(f"{name}, {split}, by {world_size} processes ended badly")
    return [json.loads(own) for own in said]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ensemble_processes")
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--out", type=Path, help="file to keep the figures in")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        work(*given.worker)
        return
    figures: list[dict[str, Any]] = []
    answers: dict[str, str] = {}
    for name, case in CASES.items():
        for count in given.processes:
            for split in ["chosen", case.other, "number"] if count > 1 else ["chosen"]:
                found = measure(count, name, split)
                first = answers.setdefault(name, found[0]["answers"])
                line: dict[str, Any] = {"data": name, "processes": count, "split": split}
                line |= {"longest": max(own["processor"] for own in found)}
                line |= {"clock": max(own["clock"] for own in found)}
                line |= {"processor": [own["processor"] for own in found]}
                line |= {"members": [own["members"] for own in found]}
                line |= {"same_answers": all(own["answers"] == first for own in found)}
                figures.append(line)
                print(json.dumps(line), flush=True)
    if given.out:
        kept = {"machine": machine_name("cpu"), "load": os.getloadavg()[0], "figures": figures}
        given.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
