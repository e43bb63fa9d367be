"""Is a fit the same in every process, and what do more threads change?

    python -m benchmarks.determinism
    python -m benchmarks.determinism --repeats 3 --methods scsd extra_trees

Every method is fitted in so many fresh processes, each with another PYTHONHASHSEED and the same
number of threads: the hash of all arrays and metadata, and that of the probabilities, must be one.
With two threads the same is asked; and how far the probabilities with two threads lie from those
with one is told, as the largest difference. That is a matter of torch, numpy and the processor, and
not promised: sums that are shared among threads round differently. `--out` keeps the lines after
every repeat.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import viewgap.methods as methods
from benchmarks.experiments import keep
from benchmarks.resume import NARROW, bits, make_data

Seen = dict[tuple[str, int], set[tuple[str, ...]]]  # by method and number of threads

ROWS = 200
SHARED = NARROW | {
    "device": "cpu",
    "max_epochs": 4,
    "n_estimators": 10,
    "n_networks": 2,
    "random_state": 0,
    "references": 64,
}
WIDE = {"hidden": (256,), "embedding": 128, "batch_size": 128}  # enough that torch shares products
SMALL: dict[str, dict[str, Any]] = {
    "ensemble": {"methods": {"late_fusion_ridge": {}, "extra_trees": {"n_estimators": 5}}},
    "imvwl": {"max_iter": 60},
    "naim3l": {"max_iter": 20},
}


def make_model(name: str) -> Any:
    """A small model of a method, wide enough that two threads have something to share."""
    kind = methods.get(name)
    known = kind._get_param_names()
    settings = {key: value for key, value in (SHARED | WIDE).items() if key in known}
    return kind(**settings | SMALL.get(name, {}))


def fit_all(names: list[str], threads: int, out: Path) -> None:
    """In a process of its own: fit, predict, keep hashes and probabilities of every method."""
    import torch

    torch.set_num_threads(threads)
    X, Y = make_data(ROWS)
    for name in names:
        model = make_model(name).fit(X, Y)
        proba = model.predict_proba(X)
        np.save(out / f"{name}-{threads}.npy", proba)
        digest = hashlib.sha256(proba.tobytes()).hexdigest()
        print(json.dumps([name, bits(model), digest]), flush=True)


def in_fresh_process(names: list[str], threads: int, seed: int, out: Path) -> list[list[str]]:
    """Name, hash of model and of probabilities; the seed is that of Python's hashes."""
    count = str(threads)
    environment = {"PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
    environment["OPENBLAS_NUM_THREADS"] = count
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.determinism", "--methods", *names]
    command += ["--inside", count, str(out)]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return [json.loads(line) for line in done.stdout.splitlines()]


def as_lines(names: list[str], seen: Seen, repeats: int, folder: Path) -> list[dict[str, Any]]:
    """How many different models came out, by number of threads, and how far they are apart."""
    lines = []
    for name in names:
        one, two = (np.load(folder / f"{name}-{threads}.npy") for threads in (1, 2))
        line: dict[str, Any] = {"method": name, "repeats": repeats}
        line["different with 1 thread"] = len(seen[name, 1])
        line["different with 2 threads"] = len(seen[name, 2])
        lines.append(line | {"largest difference": float(np.abs(one - two).max())})
    return lines


def main() -> None:
    """Print a line per method; the exit code is 1 where repeats differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--methods", nargs="+", default=methods.names(), metavar="NAME")
    parser.add_argument("--out", type=Path, help="JSON file for the lines")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        threads, out = arguments.inside
        return fit_all(arguments.methods, int(threads), Path(out))
    seen: Seen = defaultdict(set)
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, 1 + arguments.repeats):
            for threads in (1, 2):
                found = in_fresh_process(arguments.methods, threads, seed, Path(folder))
                for name, *hashes in found:
                    seen[name, threads].add(tuple(hashes))
            lines = as_lines(arguments.methods, seen, seed, Path(folder))
            keep(arguments.out, lines=lines)
    for line in lines:
        print(json.dumps(line))
    sys.exit(any(line[key] > 1 for line in lines for key in line if key.startswith("different")))


if __name__ == "__main__":
    main()
