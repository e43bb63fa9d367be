"""How long a command takes that computes nothing, beside a process that imports torch."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial

from benchmarks.record import ROOT, Context, Figure, Measured

COMMANDS = {
    "start_import": ("-c", "import viewgap"),
    "start_methods": ("-m", "viewgap", "methods"),
    "start_bench_table": ("-m", "viewgap", "bench", "table", str(ROOT / "results" / "emotions")),
}
TORCH = ("-c", "import torch")


def seconds_of_process(arguments: Sequence[str], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def measure_start(context: Context, name: str) -> Measured:
    rounds = 1 if context.quick else 5
    seconds = [seconds_of_process(arguments, rounds) for arguments in (COMMANDS[name], TORCH)]
    return Measured(*seconds)


FIGURES = [
    Figure(name, "s", partial(measure_start, name=name), devices=("cpu",)) for name in COMMANDS
]
