"""Where the time of a whole fit goes, from views in memory to probabilities of the test rows.

    VIEWGAP_DATA=... python -m benchmarks.end_to_end                 # Corel5k, both profiles
    python -m benchmarks.end_to_end --quick                          # tiny random data

Every run is a process of its own, as a user's first fit is: what a process pays once (the CUDA
context, kernels that are compiled or read from disk) is part of it. On a GPU each profile runs
twice, first with an empty folder for compiled kernels (`cold`), then with what the first run left
there (`warm`). Importing the packages and reading the file are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import viewgap
from benchmarks.data import TINY, random_labels, random_views
from benchmarks.machine import machine_name, wait_for
from benchmarks.record import ROOT
from viewgap.data.preprocessing import Standardiser
from viewgap.data.splits import make_fold
from viewgap.methods import deep
from viewgap.metrics import evaluate
from viewgap.training import loop
from viewgap.training.steps import epoch as steps

PROFILES = ("default", "paper")
OUT = Path(__file__).with_name("end_to_end.json")


class PhaseClock:
    """Seconds spent in named phases; a phase inside another one is not counted twice."""

    def __init__(self, device: str) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self._device = device
        self._stack: list[str] = []
        self._since = time.perf_counter()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside under this name."""
        self._settle()
        self._stack.append(name)
        self.calls[name] = self.calls.get(name, 0) + 1
        try:
            yield
        finally:
            self._settle()
            self._stack.pop()

    def _settle(self) -> None:
        if torch.cuda.is_initialized():
            wait_for(self._device)
        now = time.perf_counter()
        if self._stack:
            name = self._stack[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now

    def timed(self, function: Callable[..., Any], name: str, first: str = "") -> Callable[..., Any]:
        """The function, counted under `name`; its first call under `first`, if there is one.

        What other threads do meanwhile is not counted: the fit waits for it, or it does not.
        """

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return function(*arguments, **keywords)
            known = first and first not in self.calls
            with self.phase(first if known else name):
                return function(*arguments, **keywords)

        return call


# What is counted: the owner of a function, its name, the phase, and that of its first call.
PHASES: list[tuple[Any, str, str, str]] = [
    (deep, "choose_runtime", "device", ""),
    (deep.DeepClassifier, "_warm_up", "device", ""),
    (Standardiser, "fit", "features: fit", ""),
    (deep.BatchSource, "__init__", "features: rows", ""),
    (Future, "result", "waiting for weights and kernels", ""),
    (deep.DeepClassifier, "_start", "network", ""),
    (loop, "make_steps", "steps: shapes", ""),
    (loop, "_run_epoch", "epochs", "first epoch"),
    (steps.Replay, "_record", "steps: recording", ""),
    (deep.DeepClassifier, "_learn_from_held_out", "pooling", ""),
    (deep.DeepClassifier, "_check_numbers", "final checks", ""),
]


@contextmanager
def phases(clock: PhaseClock) -> Iterator[None]:
    """Count the phases of every fit and prediction inside."""
    make_scorer = deep.make_scorer

    def timed_scorer(*arguments: Any) -> Any:
        score = make_scorer(*arguments)
        return None if score is None else clock.timed(score, "scoring", "first scoring")

    with ExitStack() as stack:
        for owner, attribute, name, first in PHASES:
            known = vars(owner)[attribute]
            if isinstance(known, classmethod):
                new: Any = classmethod(clock.timed(known.__func__, name, first))
            else:
                new = clock.timed(known, name, first)
            stack.enter_context(mock.patch.object(owner, attribute, new))
        stack.enter_context(mock.patch.object(deep, "make_scorer", timed_scorer))
        yield


def load(quick: bool) -> tuple[dict[str, Any], Any]:
    """Complete views as arrays, and labels."""
    if quick:
        return dict(random_views(TINY)), random_labels(TINY)
    from viewgap.datasets import load_dataset

    dataset = load_dataset("corel5k")
    views = {name: np.asarray(dataset.views.stored(name)) for name in dataset.views.names}
    return views, np.asarray(dataset.labels)


def measure(profile: str, device: str, quick: bool, seed: int) -> dict[str, Any]:
    """One fit and one prediction in this process, with the seconds of every phase."""
    arrays, complete = load(quick)
    fold = make_fold(viewgap.ViewSet(arrays), complete, seed=seed)
    sizes = dict(TINY.sizes) | {"max_epochs": 3} if quick else {}
    model = viewgap.SCSD(profile=profile, device=device, random_state=seed, **sizes)
    clock = PhaseClock(device)
    start = time.perf_counter()
    with clock.phase("views"):
        views = viewgap.ViewSet(arrays)
        split = fold.split(views, complete)
    with phases(clock):
        with clock.phase("checks"):
            model.fit(*split.train, validation=split.validation)
        with clock.phase("prediction"):
            probabilities = model.predict_proba(split.test[0])
    total = time.perf_counter() - start
    score = evaluate(split.test[1], probabilities)["AP"]
    return {
        "profile": profile,
        "device": machine_name(device),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "total": round(total, 3),
        "seconds": {name: round(seconds, 3) for name, seconds in clock.seconds.items()},
        "calls": clock.calls,
        "epochs": model.n_epochs_,
        "best_epoch": model.best_epoch_,
        "test_AP": round(score, 4),
    }


def run_in_process(profile: str, options: argparse.Namespace, cache: str) -> dict[str, Any]:
    """`measure` in a new process that keeps compiled kernels in this folder."""
    words = ["--one", profile, "--device", options.device, "--seed", str(options.seed)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.end_to_end", *words, *["--quick"] * options.quick],
        cwd=ROOT,
        env=os.environ | {"TRITON_CACHE_DIR": cache},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _rows(runs: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Phases down, runs across."""
    names = list(dict.fromkeys(name for run in runs for name in run["seconds"]))
    return [
        ["seconds", *(f"{run['profile']} {run['kernels']}".strip() for run in runs)],
        *([name, *(f"{run['seconds'].get(name, 0.0):.2f}" for run in runs)] for name in names),
        ["total", *(f"{run['total']:.2f}" for run in runs)],
        ["epochs", *(f"{run['epochs']}" for run in runs)],
        ["test AP", *(f"{run['test_AP']:.4f}" for run in runs)],
    ]


def as_text(runs: Sequence[dict[str, Any]]) -> str:
    """A table for a terminal."""
    rows = _rows(runs)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        shown = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join([name.ljust(widths[0]), *shown]))
    return "\n".join(lines)


def as_markdown(kept: dict[str, Any]) -> str:
    """A table for the README, of what was kept."""
    head, *rows = _rows(kept["runs"])
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.end_to_end",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), help="cuda if there is one")
    parser.add_argument("--profiles", nargs="+", choices=PROFILES, default=PROFILES)
    parser.add_argument("--seed", type=int, default=0, help="of the fold and of the fit")
    parser.add_argument("--quick", action="store_true", help="tiny random data; keeps nothing")
    parser.add_argument("--out", type=Path, help="file to keep the seconds in (end_to_end.json)")
    parser.add_argument("--one", choices=PROFILES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.one:
        print(json.dumps(measure(options.one, options.device, options.quick, options.seed)))
        return 0
    runs: list[dict[str, Any]] = []
    for profile in options.profiles:
        with tempfile.TemporaryDirectory() as cache:
            states = ("cold", "warm") if options.device == "cuda" else ("",)
            runs += [run_in_process(profile, options, cache) | {"kernels": own} for own in states]
    out = options.out or (None if options.quick else OUT)
    if out is not None:
        command = " ".join(["python -m benchmarks.end_to_end", *(arguments or sys.argv[1:])])
        out.write_text(json.dumps({"command": command, "runs": runs}, indent=1) + "\n", "utf-8")
    print(as_text(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
