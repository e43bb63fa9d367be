"""Recorded steps of a GPU with a process group: the same model, and what a step takes.

    python -m benchmarks.recorded_processes --out benchmarks/recorded_processes.json

One GPU is enough: a group of one process talks by NCCL as one of many does, and goes through all
that several processes do to share batches or to deal networks out. What one process without a group
trains is compared with that, replayed and step by step; then two processes deal the networks of a
committee out on the same GPU, talking by gloo. Models are compared in float64 after 54 steps, times
are those of the default precision on the widths of Corel5k. On a CPU nothing is recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import viewgap
from benchmarks.data import COREL5K, Shape, learnable_data
from benchmarks.machine import machine_name, wait_for
from viewgap.methods import deep
from viewgap.methods.fitting import processes as fit_processes
from viewgap.training import processes
from viewgap.training.batches.source import BatchSource
from viewgap.training.callbacks import Callback, TrainingContext
from viewgap.training.processes import ProcessGroup, process_group
from viewgap.training.steps.dealt import DealtSteps
from viewgap.training.steps.replay import Replay

SMALL = Shape(184, (40, 30, 25), 12)
METHODS: dict[str, dict[str, Any]] = {
    "SCSD": {"n_networks": 1, "dropout": 0.2},
    "SCSD as published": {"profile": "paper", "dropout": 0.2},
    "SCSD committee": {"n_networks": 3},
    "DRLS": {"dropout": 0.2},
    "MTD": {},
    "RANK": {},
    "LMVCAT": {"profile": "paper", "layers": 1},
    "DVSM": {},
}
WAYS = ("alone", "alone, step by step", "shared", "shared, step by step", "dealt out")
TIMED: dict[str, dict[str, Any]] = {
    "one network": {"n_networks": 1, "cross_fit": False},
    "as published": {"profile": "paper"},
    "committee of five": {"n_networks": 5, "cross_fit": False},
}


class EpochTimes(Callback):
    """When every epoch ended."""

    def __init__(self, device: str) -> None:
        self.device, self.ends = device, list[float]()

    def on_epoch_end(self, context: TrainingContext) -> None:
        wait_for(self.device)
        self.ends.append(time.perf_counter())


class Exchanges:
    """How long it takes after an epoch to hand dealt networks round."""

    def __init__(self, device: str) -> None:
        self.device, self.seconds = device, list[float]()

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Time those inside."""
        exchange = DealtSteps._exchange

        def measured(steps: DealtSteps) -> None:
            wait_for(self.device)
            start = time.perf_counter()
            exchange(steps)
            wait_for(self.device)
            self.seconds.append(time.perf_counter() - start)

        with mock.patch.object(DealtSteps, "_exchange", measured):
            yield


class Recordings:
    """How many recordings were made, and how many sums over processes are in them."""

    def __init__(self) -> None:
        self.count, self.messages = 0, 0
        self._record, self._reduce = Replay._record, torch.distributed.all_reduce

    def record(self, replay: Replay) -> Any:
        """Make one, and count it."""
        self.count += 1
        return self._record(replay)

    def reduce(self, *arguments: Any, **more: Any) -> Any:
        """Add up over the processes; counted where that is recorded."""
        self.messages += torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
        return self._reduce(*arguments, **more)

    @property
    def counts(self) -> dict[str, int]:
        """Both."""
        return {"recordings": self.count, "messages_recorded": int(self.messages)}


@contextmanager
def counted() -> Iterator[Recordings]:
    """Count the recordings that are made inside."""
    found = Recordings()
    with (
        mock.patch.object(Replay, "_record", lambda replay: found.record(replay)),
        mock.patch.object(torch.distributed, "all_reduce", found.reduce),
    ):
        yield found


@contextmanager
def done(way: str) -> Iterator[Recordings]:
    """Fits inside are done this way; a group of one process counts as one of several."""
    with ExitStack() as patches, counted() as found:
        patch = patches.enter_context
        if way.endswith("step by step"):
            on_cpu = property(lambda _: torch.device("cpu"))
            patch(mock.patch.object(BatchSource, "replay_device", on_cpu))
        if way.startswith("alone"):
            patch(processes.alone())
        else:
            for module in (fit_processes, deep):
                patch(mock.patch.object(module, "several_processes", processes.current_processes))
            dealt = way == "dealt out"
            patch(mock.patch.object(ProcessGroup, "deals_out", lambda _, n: dealt and n > 1))
        yield found


def make(name: str, device: str, **params: Any) -> Any:
    """An estimator that trains for a number of epochs on all rows."""
    method = getattr(viewgap, name.partition(" ")[0])
    fixed = {"validation_fraction": 0.0, "random_state": 3, "device": device}
    return method(**fixed, **params)


def weights_of(model: Any) -> dict[str, np.ndarray]:
    return {k: v.cpu().numpy() for k, v in model.network_.state_dict().items()}


def difference(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    gaps = (float(np.abs(v.astype(float) - other[k]).max(initial=0)) for k, v in one.items())
    return max(gaps)


def compared(device: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """How far every way is from the first one, after 54 steps in float64."""
    X, Y = learnable_data(SMALL)
    lines = []
    for name in names:
        expected: dict[str, np.ndarray] = {}
        for way in WAYS:
            if way == "dealt out" and "committee" not in name:
                continue
            with done(way) as recordings:
                sizes = {"precision": "float64", "batch_size": 32, "max_epochs": 9}
                slow = {"learning_rate": 1e-5} if name == "DRLS" else {}
                model = make(name, device, **sizes, **slow, **METHODS[name]).fit(X, Y)
            weights = weights_of(model)
            expected = expected or weights
            line = {"fit": name, "way": way, **recordings.counts}
            lines.append(line | {"largest_difference": difference(expected, weights)})
            print(lines[-1], flush=True)
    return lines


def timed(device: str, shape: Shape, epochs: int) -> list[dict[str, Any]]:
    """Milliseconds of a step, by the median epoch after the first three."""
    X, Y = learnable_data(shape)
    lines = []
    for name, params in TIMED.items():
        for way in WAYS:
            if way == "dealt out" and "committee" not in name:
                continue
            clock, exchanges = EpochTimes(device), Exchanges(device)
            with done(way) as recordings, exchanges.timed():
                options = {"max_epochs": epochs, "callbacks": [clock]}
                model = make("SCSD", device, **options, **params).fit(X, Y)
            steps = -(-shape.n // model.settings_.batch_size)
            taken = statistics.median(np.diff(clock.ends)[2:]) / steps
            line = {"fit": name, "way": way, **recordings.counts}
            line |= {"step_ms": round(1e3 * float(taken), 3)}
            if exchanges.seconds:
                line["exchange_ms_an_epoch"] = round(1e3 * statistics.median(exchanges.seconds), 2)
            lines.append(line)
            print(lines[-1], flush=True)
    return lines


# ---------------------------------------------------------------------- two processes, one GPU


def worker(rank: str, place: str, device: str, out: str) -> None:
    """One of two processes that have two networks of a committee each."""
    environment = {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": place, "MASTER_PORT": "0"}
    with process_group("gloo", committee="deal", environment=environment) as group:
        weights, recordings = four_networks(device)
        if group.is_main:
            np.savez(out, allow_pickle=False, recordings=recordings, **weights)


def four_networks(device: str) -> tuple[dict[str, np.ndarray], int]:
    """Their weights, and how many recordings were made. Gloo cannot be recorded: no clipping."""
    X, Y = learnable_data(SMALL)
    sizes = {"precision": "float64", "batch_size": 32, "max_epochs": 9, "n_networks": 4}
    with counted() as recordings:
        model = make("SCSD", device, **sizes, max_grad_norm=0.0).fit(X, Y)
    return weights_of(model), recordings.count


def by_two_processes(device: str) -> dict[str, Any]:
    """A committee dealt out to two processes on this device, beside one process."""
    with tempfile.TemporaryDirectory() as folder:
        place, out = f"file://{folder}/meeting", f"{folder}/found.npz"
        command = [sys.executable, "-m", "benchmarks.recorded_processes", "--worker"]
        workers = [
            subprocess.Popen([*command, str(rank), place, device, out], env=os.environ)
            for rank in range(2)
        ]
        try:
            codes = [one.wait(timeout=200) for one in workers]
        finally:
            for one in workers:
                one.kill()
                one.wait()
        if any(codes):
            raise SystemExit(f"two processes ended with {codes}")
        with np.load(out) as kept:
            found = dict(kept)
    expected, alone = four_networks(device)
    return {
        "recordings_of_one": alone,
        "recordings_of_the_first_of_two": int(found.pop("recordings")),
        "largest_difference": difference(expected, found),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="small data, few methods")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        worker(*given.worker)
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kept: dict[str, Any] = {"machine": machine_name(device), "torch": torch.__version__}
    with tempfile.TemporaryDirectory() as folder:
        place = {"MASTER_ADDR": f"file://{folder}/meeting", "MASTER_PORT": "0"}
        environment = {"RANK": "0", "WORLD_SIZE": "1", **place}
        with process_group(environment=environment):
            kept["backend"] = torch.distributed.get_backend()
            kept["compared"] = compared(device, list(METHODS)[:2] if given.quick else list(METHODS))
            shape = SMALL if given.quick else Shape(3500, COREL5K.dims, COREL5K.labels)
            kept["timed"] = timed(device, shape, 5 if given.quick else 8)
    kept["two_processes"] = by_two_processes(device)
    print(kept["two_processes"])
    if given.out:
        given.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
