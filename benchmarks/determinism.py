"""Is a fit the same in every process, and what do more threads change?

    python -m benchmarks.determinism
    python -m benchmarks.determinism --repeats 3 --methods scsd extra_trees

Every method is fitted in so many fresh processes, each with another PYTHONHASHSEED and the same
number of threads: the hash of all arrays and metadata, and that of the probabilities, must be one.
Once more, with two threads, the same is asked; and how far the probabilities with two threads lie
from those with one is told, as the largest difference. That is a matter of torch, numpy and the
processor, and not promised: sums that are shared among threads round differently.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import viewgap.methods as methods
from benchmarks.machine import machine_name
from benchmarks.resume import NARROW, bits, make_data

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


def fit_one(name: str, threads: int, out: Path) -> None:
    """In a process of its own: fit, predict, keep hash and probabilities."""
    import torch

    torch.set_num_threads(threads)
    X, Y = make_data(ROWS)
    model = make_model(name).fit(X, Y)
    proba = model.predict_proba(X)
    np.save(out, proba)
    digest = hashlib.sha256(proba.tobytes()).hexdigest()
    print(json.dumps([bits(model), digest]))


def in_fresh_process(name: str, threads: int, seed: int, out: Path) -> tuple[str, str]:
    """Hashes of model and probabilities; the seed is that of Python's hashes."""
    count = str(threads)
    environment = {"PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.determinism", "--one", name]
    command += [count, str(out)]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    model, proba = json.loads(done.stdout.splitlines()[-1])
    return model, proba


def compare(name: str, repeats: int, folder: Path) -> dict[str, Any]:
    """How many different models came out, by number of threads, and how far they are apart."""
    line: dict[str, Any] = {"method": name, "repeats": repeats}
    found: dict[int, np.ndarray] = {}
    for threads in (1, 2):
        out = folder / f"{name}-{threads}.npy"
        seen = {in_fresh_process(name, threads, seed, out) for seed in range(1, 1 + repeats)}
        line[f"different with {threads} thread" + "s" * (threads > 1)] = len(seen)
        found[threads] = np.load(out)
    line["largest difference"] = float(np.abs(found[1] - found[2]).max())
    return line


def main() -> None:
    """Print a line per method; the exit code is 1 where repeats differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--methods", nargs="+", default=methods.names(), metavar="NAME")
    parser.add_argument("--out", type=Path, help="JSON file for the lines")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, threads, out = arguments.one
        return fit_one(name, int(threads), Path(out))
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.methods:
            lines.append(compare(name, arguments.repeats, Path(folder)))
            print(json.dumps(lines[-1]), flush=True)
            if arguments.out:
                kept = {"machine": machine_name("cpu"), "arguments": sys.argv[1:], "lines": lines}
                arguments.out.write_text(json.dumps(kept, indent=1) + "\n")
    sys.exit(any(line[key] > 1 for line in lines for key in line if key.startswith("different")))


if __name__ == "__main__":
    main()
