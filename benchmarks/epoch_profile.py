"""Where the time of an epoch goes, for the methods of an experiment file, by torch's profiler.

    python -m benchmarks.epoch_profile configs/complete.toml --dataset corel5k --out FILE.json

Of every method the first task, a few epochs of it: milliseconds of a step and of what follows the
steps of an epoch (validation, best weights), each with the device waited for; of one more epoch
what the GPU did, by kernel. On a CPU the operations take the place of the kernels.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.experiments import append
from benchmarks.machine import machine_name, wait_for
from viewgap.bench.run.execute import _take, build_method
from viewgap.bench.run.experiment import expand, parse_file, select
from viewgap.bench.run.task import Task
from viewgap.data.validation import as_labels
from viewgap.training import loop
from viewgap.training.callbacks import Callback, TrainingContext

WARM_UP, TIMED = 3, 4  # epochs; the one after them is profiled


class EpochTimes(Callback):
    """Seconds of the steps of each epoch and of what follows them; the kernels of the last."""

    def __init__(self, device: str) -> None:
        self.device, self.steps = device, 0
        self.of_steps: list[float] = []
        self.of_rest: list[float] = []
        self.kernels: dict[str, tuple[float, int]] = {}
        self._end = 0.0

    @contextmanager
    def around_steps(self) -> Iterator[None]:
        """Around the steps of every epoch; the last one is profiled."""
        wait_for(self.device)
        start = time.perf_counter()
        if len(self.of_steps) < WARM_UP + TIMED:
            yield
            wait_for(self.device)
        else:
            on_gpu = self.device == "cuda"
            kind = ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU
            with profile(activities=[kind], acc_events=True) as profiler:
                yield
                wait_for(self.device)
            for event in profiler.key_averages():
                spent = event.self_device_time_total if on_gpu else event.self_cpu_time_total
                self.kernels[event.key] = (spent / 1e6, event.count)
        self._end = time.perf_counter()
        self.of_steps.append(self._end - start)

    def on_epoch_end(self, context: TrainingContext) -> None:
        """What came after the steps is over."""
        wait_for(self.device)
        self.of_rest.append(time.perf_counter() - self._end)


def measure(task: Task, device: str) -> dict[str, Any]:
    """The line of one method."""
    times = EpochTimes(device)
    model = build_method(task, device=device)
    model.set_params(max_epochs=WARM_UP + TIMED + 1, callbacks=[times])
    if "min_epochs" in model.get_params():
        model.set_params(min_epochs=1)
    dataset, _, split = _take(task)
    views, values = split.train
    run_epoch = loop._run_epoch

    def timed(state: Any, source: Any, steps: Any, settings: Any) -> dict[str, float]:
        times.steps = len(source.batches_of_epoch(settings.batch_size, None)[0])
        with times.around_steps():
            return run_epoch(state, source, steps, settings)

    with mock.patch.object(loop, "_run_epoch", timed):
        labels = as_labels(values, views, dataset.label_names)
        model.fit(views, labels, validation=split.validation)
    n, part = times.steps, slice(WARM_UP, WARM_UP + TIMED)
    kernels = sorted(times.kernels.items(), key=lambda item: -item[1][0])
    return {
        "method": task.method,
        "dataset": task.dataset,
        "view_rate": task.view_rate,
        "machine": machine_name(device),
        "weights": sum(p.numel() for p in model.network_.parameters()),
        "steps": n,
        "step_ms": 1e3 * statistics.median(times.of_steps[part]) / n,
        "rest_ms": 1e3 * statistics.median(times.of_rest[part]),
        "kernel_ms": 1e3 * sum(spent for spent, _ in times.kernels.values()) / n,
        "kernels_per_step": sum(count for _, count in times.kernels.values()) / n,
        "kernels": [[name[:160], 1e3 * t / n, count / n] for name, (t, count) in kernels[:40]],
    }


def as_text(lines: Sequence[dict[str, Any]], top: int) -> str:
    """A row per method, and below it the kernels that take longest."""
    rows = []
    for line in lines:
        rows.append(
            f"{line['method']:8} {line['weights'] / 1e6:6.1f} M weights, {line['steps']} steps: "
            f"{line['step_ms']:.2f} ms a step, {line['kernel_ms']:.2f} of it in "
            f"{line['kernels_per_step']:.0f} kernels; {line['rest_ms']:.0f} ms after them"
        )
        rows += [
            f"    {ms:7.3f} ms {count:6.1f} x {name}" for name, ms, count in line["kernels"][:top]
        ]
    return "\n".join(rows)


def main() -> None:
    """Measure the first task of every method, and print and keep the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--dataset", default="corel5k")
    parser.add_argument("--methods", nargs="*", help="a part of the file")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--top", type=int, default=8, help="kernels shown of each method")
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add to")
    arguments = parser.parse_args()
    tasks = expand(parse_file(arguments.config), str(arguments.config), arguments.config.parent)
    tasks = select(tasks, datasets=[arguments.dataset], methods=arguments.methods or ())
    first: dict[str, Task] = {}
    for task in tasks:
        if "device" in build_method(task).get_params():
            first.setdefault(task.method, task)
    lines = []
    for task in first.values():
        lines.append(measure(task, arguments.device))
        print(as_text(lines[-1:], arguments.top), flush=True)
        append(arguments.out, lines[-1])


if __name__ == "__main__":
    main()
