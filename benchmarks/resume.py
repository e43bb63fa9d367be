"""Kills fits at random times and lets them go on: do they end in the bits of an unbroken fit?

    python -m benchmarks.resume                  # 25 kills of SCSD, 25 of the ensemble
    python -m benchmarks.resume --kills 6 --seed 1

Every fit runs in a process of its own with `checkpoint_dir`, is killed by SIGKILL at a time drawn
evenly over the length of a whole fit, and goes on in a new process with `resume=True`. The hash of
all arrays and metadata of the model is compared with that of a fit that nobody interrupted. A fit
that had ended before its kill came is no kill; another one is drawn. Processes are forked, so that
none has to import torch again: needs Linux or macOS.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a forked process has only one of the threads

import numpy as np

import viewgap
import viewgap.ensemble.estimator
import viewgap.methods.scsd
from viewgap.data.viewset import ViewSet

SIZES = {False: (240, 40), True: (80, 6)}  # rows and epochs


def make_model(name: str, epochs: int) -> Any:
    """A small model that trains for so many epochs, an ensemble for half of them."""
    scsd = {"patience": epochs, "n_networks": 3, "hidden": (32,), "embedding": 16}
    if name == "scsd":
        return viewgap.SCSD(**scsd, max_epochs=epochs, random_state=0, device="cpu")
    members = {
        "late_fusion_ridge": {},
        "scsd": scsd | {"max_epochs": epochs // 2},
        "extra_trees": {"n_estimators": 20, "n_jobs": 1},
    }
    return viewgap.Ensemble(methods=members, random_state=0, device="cpu")


def make_data(n: int) -> tuple[ViewSet, np.ndarray]:
    """Two views, one of them missing for a third of the rows; some labels not observed."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(n, 12)), rng.normal(size=(n, 8))
    Y = np.column_stack([a[:, :2] > 0, b[:, :2] > 0.5]).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    observed = np.ones((n, 2), dtype=bool)
    observed[::3, 1] = False
    return ViewSet({"a": a, "b": b}, observed=observed), Y


def bits(model: Any) -> str:
    """Hash of everything that a fitted model knows."""
    state = model._get_state()
    digest = hashlib.sha256(repr(sorted(state.metadata.items())).encode())
    for name in sorted(state.arrays):
        array = np.asarray(state.arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def start_fit(name: str, run: Path | None, result: Path, small: bool) -> int:
    """Fit in a new process, which writes the hash of its model; returns its number."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        kept = {} if run is None else {"checkpoint_dir": run, "resume": (run / "fit.json").exists()}
        rows, epochs = SIZES[small]
        result.write_text(bits(make_model(name, epochs).fit(*make_data(rows), **kept)))
        code = 0
    finally:
        os._exit(code)


def whole_fit(name: str, run: Path | None, result: Path, small: bool) -> tuple[str, float]:
    """Hash and seconds of a fit that nobody interrupts from here on."""
    start = time.monotonic()
    _, status = os.waitpid(start_fit(name, run, result, small), 0)
    if status != 0:
        raise SystemExit(f"a fit of {name} ended with status {status}")
    return result.read_text(), time.monotonic() - start


def killed_at(run: Path, process: int, seconds: float) -> str | None:
    """Kill a fit after a while; where it was, None if it had ended."""
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if not os.WIFSIGNALED(status):
        return None
    if not (run / "fit.json").exists():
        return "before it began"
    return "in training" if list(run.rglob("latest.json")) else "before the first step"


def kill_and_resume(
    name: str, kills: int, chance: random.Random, folder: Path, small: bool
) -> dict[str, Any]:
    """Kill so many fits of a method, let each go on, and compare."""
    result = folder / "result"
    make_model(name, 2)._check_parameters()  # imports what processes would have to import each
    whole, seconds = whole_fit(name, None, result, small)
    places: Counter[str] = Counter()
    equal = 0
    while sum(places.values()) < kills:
        run = folder / "run"
        place = killed_at(run, start_fit(name, run, result, small), chance.uniform(0, seconds))
        if place is not None:
            places[place] += 1
            equal += whole_fit(name, run, result, small)[0] == whole
        shutil.rmtree(run, ignore_errors=True)
    return {"method": name, "kills": kills, "bit-equal": equal, "killed": dict(places)}


def main() -> None:
    """Print the table; the exit code is 1 where a fit differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a few rows and epochs")
    arguments = parser.parse_args()
    chance, lines = random.Random(arguments.seed), []
    methods = ("scsd", "ensemble")
    share = -(-arguments.kills // len(methods))
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(methods):
            kills = min(share, arguments.kills - number * share)
            lines.append(kill_and_resume(name, kills, chance, Path(folder), arguments.small))
            print(json.dumps(lines[-1]), flush=True)
    equal = sum(line["bit-equal"] for line in lines)
    print(f"{equal} of {arguments.kills} bit-equal")
    sys.exit(equal != arguments.kills)


if __name__ == "__main__":
    main()
