"""Steps of one fit by 1, 2 and 4 processes of this machine, and what they say to each other.

    python -m benchmarks.processes --out benchmarks/processes.json

Every process has one thread. Each kind of fit is done `--rounds` times, the kinds in turn, and the
medians are compared: machine and moment are the same for all of them. More processes than cores
only show what the messages cost; `share_of_work` is the processor time of one process beside that
of a fit alone, which other programs on the machine change little.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import viewgap
from benchmarks.machine import machine_name
from viewgap.training.callbacks import Callback, TrainingContext
from viewgap.training.processes import process_group

WORLD_SIZES = (1, 2, 4)
FITS: dict[str, dict[str, Any]] = {
    "one network": {"n_networks": 1},
    "committee of 4, shared": {"n_networks": 4},
    "committee of 4, dealt out": {"n_networks": 4},
}
N, DIMS, LABELS, BATCH, EPOCHS = 2048, (400, 300, 200), 50, 256, 4


class Clock(Callback):
    """When every epoch began, and the messages until then."""

    def __init__(self, messages: list[int]) -> None:
        self.messages = messages
        self.begun: list[tuple[float, float, int, int]] = []

    def on_epoch_begin(self, context: TrainingContext) -> None:
        now = (time.perf_counter(), time.process_time(), len(self.messages), sum(self.messages))
        self.begun.append(now)


def data() -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(N, 20))
    views = {}
    for number, d in enumerate(DIMS):
        values = hidden @ rng.normal(size=(20, d)) + rng.normal(size=(N, d))
        values[(rng.random(N) < 0.3) & (np.arange(N) % len(DIMS) != number)] = np.nan
        views[f"v{number}"] = values.astype(np.float32)
    return views, (hidden @ rng.normal(size=(20, LABELS)) > 1).astype(float)


def fit(name: str) -> dict[str, float]:
    """Seconds, messages and bytes of a step of this fit, without the first epoch."""
    messages: list[int] = []
    plain = torch.distributed.all_reduce

    def counted(tensor: torch.Tensor, *rest: Any, **more: Any) -> Any:
        messages.append(tensor.numel() * tensor.element_size())
        return plain(tensor, *rest, **more)

    torch.distributed.all_reduce = counted
    clock, (views, Y) = Clock(messages), data()
    viewgap.SCSD(
        batch_size=BATCH,
        max_epochs=EPOCHS,
        validation_fraction=0.0,
        hidden=(512,),
        embedding=256,
        random_state=0,
        device="cpu",
        precision="highest",
        callbacks=[clock],
        **FITS[name],
    ).fit(views, Y)
    steps = (len(clock.begun) - 2) * (N // BATCH)
    first, last = clock.begun[1], clock.begun[-1]
    seconds, busy, count, size = ((b - a) / steps for a, b in zip(first, last, strict=True))
    times = {"step_ms": 1e3 * seconds, "processor_ms": 1e3 * busy}
    return {**times, "messages": count, "kilobytes": size / 1024}


def work(rank: str, world_size: str, place: str, name: str) -> None:
    """One process; the first one prints what it has measured."""
    torch.set_num_threads(1)
    environment = {
        "RANK": rank,
        "WORLD_SIZE": world_size,
        "MASTER_ADDR": f"file://{place}",
        "MASTER_PORT": "0",
    }
    committee = "deal" if name.endswith("dealt out") else "share"
    with process_group("gloo", committee=committee, environment=environment) as group:
        found = fit(name)
        if group.is_main:
            print(json.dumps(found))


def measure(world_size: int, name: str) -> dict[str, float]:
    """The same by so many new processes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        start = [sys.executable, "-m", "benchmarks.processes", "--worker"]
        rest = [str(world_size), str(Path(folder) / "meeting"), name]
        workers = [
            subprocess.Popen([*start, str(r), *rest], stdout=subprocess.PIPE, env=environment)
            for r in range(world_size)
        ]
        try:
            said = workers[0].communicate(timeout=600)[0]
            codes = [worker.wait(timeout=60) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
    if any(codes):
        raise SystemExit(f"{name} by {world_size} processes ended with {codes}")
    found: dict[str, float] = json.loads(said)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.processes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="file to keep the figures in")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        work(*given.worker)
        return
    kinds = [(w, name) for name in FITS for w in WORLD_SIZES if w > 1 or "dealt" not in name]
    every = [[measure(*kind) for kind in kinds] for _ in range(given.rounds)]
    figures = []
    alone: dict[int, dict[str, float]] = {}
    for (world_size, name), rounds in zip(kinds, zip(*every, strict=True), strict=True):
        middle = {k: round(statistics.median(own[k] for own in rounds), 2) for k in rounds[0]}
        n = FITS[name]["n_networks"]
        alone.setdefault(n, middle)
        ratios = {
            "speed": round(alone[n]["step_ms"] / middle["step_ms"], 2),
            "share_of_work": round(middle["processor_ms"] / alone[n]["processor_ms"], 2),
        }
        figures.append({"fit": name, "processes": world_size, **middle, **ratios})
        print(figures[-1], flush=True)
    if given.out:
        kept = {"machine": machine_name("cpu"), "rounds": given.rounds, "figures": figures}
        given.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
