"""Where the time of an epoch goes, for the networks of an experiment file, by torch's profiler.

    python -m benchmarks.epoch_profile configs/complete.toml --out benchmarks/epoch_profile.jsonl

Of every method the first task, with a few epochs: milliseconds of a step, and from the last step
of an epoch to the first of the next (validation, best weights, batches), the device waited for. Of
the last epoch what the GPU did, by kernel; on a CPU the operations take the place of the kernels.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks._step import around_epochs
from benchmarks.experiments import append
from benchmarks.machine import machine_name, wait_for
from viewgap.bench.run.execute import build_method, fit_task
from viewgap.bench.run.experiment import read_experiment, select
from viewgap.bench.run.provenance import commit
from viewgap.bench.run.task import Task

WARM_UP, TIMED = 3, 4  # epochs; the one after them is profiled
SHOWN = 40  # kernels that are kept


class EpochTimes:
    """When the steps of every epoch began and ended, and the kernels of the last epoch."""

    def __init__(self, device: str) -> None:
        self.device, self.n_steps = device, 0
        self.times: list[tuple[float, float]] = []
        self.kernels: dict[str, tuple[float, int]] = {}

    def run(self, steps: Callable[[], Any], n_steps: int) -> Any:
        """Run the steps of an epoch."""
        self.n_steps = n_steps
        wait_for(self.device)
        start = time.perf_counter()
        result = steps() if len(self.times) < WARM_UP + TIMED else self._profile(steps)
        wait_for(self.device)
        self.times.append((start, time.perf_counter()))
        return result

    def _profile(self, steps: Callable[[], Any]) -> Any:
        on_gpu = self.device == "cuda"
        kind = ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU
        with profile(activities=[kind], acc_events=True) as profiler:
            result = steps()
            wait_for(self.device)
        for event in profiler.key_averages():
            spent = event.self_device_time_total if on_gpu else event.self_cpu_time_total
            self.kernels[event.key] = (spent / 1e3, event.count)
        return result

    def figures(self) -> dict[str, Any]:
        """Milliseconds and kernels of a step."""
        n, timed = self.n_steps, self.times[WARM_UP : WARM_UP + TIMED]
        later = [start for start, _ in self.times[WARM_UP + 1 :]]
        gaps = [start - end for (_, end), start in zip(timed, later, strict=False)]
        kernels = sorted(self.kernels.items(), key=lambda item: -item[1][0])
        return {
            "steps": n,
            "step_ms": 1e3 * statistics.median(end - start for start, end in timed) / n,
            "rest_ms": 1e3 * statistics.median(gaps),
            "kernel_ms": sum(spent for spent, _ in self.kernels.values()) / n,
            "kernels_per_step": sum(count for _, count in self.kernels.values()) / n,
            "kernels": [[name[:160], spent / n, m / n] for name, (spent, m) in kernels[:SHOWN]],
        }


def measure(task: Task, device: str) -> dict[str, Any]:
    """The line of one method."""
    few = {"max_epochs": WARM_UP + TIMED + 1, "min_epochs": 1}
    few = {name: few[name] for name in few.keys() & build_method(task).get_params().keys()}
    times = EpochTimes(device)
    with around_epochs(times.run):
        fitted = fit_task(replace(task, params={**task.params, **few}), device=device)
    network = fitted.model.network_
    return {
        "method": task.method,
        "dataset": task.dataset,
        "view_rate": task.view_rate,
        "machine": machine_name(device),
        "torch": torch.__version__,
        "commit": commit(),
        "weights": sum(p.numel() for p in network.parameters()),
        **times.figures(),
    }


def as_text(line: dict[str, Any], top: int) -> str:
    """The figures of a method, and below them the kernels that take longest."""
    rows = [
        f"{line['method']:8} {line['weights'] / 1e6:6.1f} M weights, {line['steps']} steps: "
        f"{line['step_ms']:.2f} ms a step, {line['kernel_ms']:.2f} ms in "
        f"{line['kernels_per_step']:.0f} kernels; {line['rest_ms']:.0f} ms between epochs"
    ]
    rows += [f"    {ms:7.3f} ms {count:6.1f} x {name}" for name, ms, count in line["kernels"][:top]]
    return "\n".join(rows)


def networks_of(config: Path, dataset: str, methods: Sequence[str]) -> list[Task]:
    """The first task of every network of an experiment file."""
    first: dict[str, Task] = {}
    for task in select(read_experiment(config), datasets=[dataset], methods=methods):
        if "device" in build_method(task).get_params():
            first.setdefault(task.method, task)
    return list(first.values())


def main() -> None:
    """Measure the networks, and print and keep their lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--dataset", default="corel5k")
    parser.add_argument("--methods", nargs="*", default=(), help="a part of the file")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--top", type=int, default=8, help="kernels shown of each method")
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add to")
    arguments = parser.parse_args()
    for task in networks_of(arguments.config, arguments.dataset, arguments.methods):
        line = measure(task, arguments.device)
        print(as_text(line, arguments.top), flush=True)
        append(arguments.out, line)


if __name__ == "__main__":
    main()
