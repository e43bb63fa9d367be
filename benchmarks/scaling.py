"""What a step of SCSD costs on several processes: measured here, predicted for more.

    python -m benchmarks.scaling measure            # constants and validation: scaling.json
    python -m benchmarks.scaling predict            # 1, 8 and 64 GPUs, a billion samples
    python -m benchmarks.scaling table              # the tables of docs/scaling.md

A step takes the time of the process with the largest part of the batch, and of the reductions:

    step(p)   = host + layers + parameters + products(B / p) + draws(B) + reduce(p) per message
    reduce(p) = call + neighbours * (p - 1) + bytes * 2 (p - 1) / p / bandwidth

What a process computes is measured in processor time, which other programs on the machine do not
spoil: on one process, which takes its part of every batch as one of p would, and adds nothing up.
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
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.flop_counter import FlopCounterMode

from benchmarks._scaling_model import (
    COMPUTE,
    FLOAT,
    LARGE,
    REDUCE,
    Case,
    Machine,
    errors_of,
    features,
    fit_relative,
    messages,
    predict,
    reduce_features,
    reduction_seconds,
    tables,
)
from benchmarks._step import begin_fit
from benchmarks.data import Shape, learnable_data
from benchmarks.machine import machine_name
from viewgap.nn.reduce import ProcessReducer, Reducer, set_reducer
from viewgap.training.processes import process_group
from viewgap.training.steps import PlainSteps

KEPT = Path(__file__).with_suffix(".json")


# ------------------------------------------------------------------ counted, without processes


class _Noted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, sizes: list[int]) -> torch.Tensor:
        ctx.sizes = sizes
        sizes.append(value.numel())
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.sizes.append(gradients[0].numel())
        return gradients[0], None


class OneOf(Reducer):
    """The first of `count` processes without the others: its part of the batch, its own sums."""

    def __init__(self, count: int) -> None:
        self.rank, self.count = 0, count
        self.sizes: list[int] = []

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        """Note what would be sent."""
        kept: torch.Tensor = _Noted.apply(value, self.sizes)  # type: ignore[no-untyped-call]
        return kept


class Trained:
    """A network at its first steps, as a fit takes them; `reducer`: of the processes."""

    def __init__(self, case: Case, reducer: Reducer | None = None) -> None:
        X, Y = learnable_data(Shape(4 * case.batch, case.dims, case.labels))
        model = case.model()
        self._state, self._source, _ = begin_fit(model, X, Y)
        if reducer is not None:
            self._source.runtime = replace(self._source.runtime, reducer=reducer)
            set_reducer(self._state.network, reducer)
        self._steps = PlainSteps(self._state, self._source, model.settings_)
        self._state.network.train()
        sizes = [p.numel() for p in self._state.network.parameters()]
        self.parameters, self.tensors = sum(sizes), len(sizes)

    def step(self) -> None:
        """One step on a full batch."""
        batch = self._source.batches_of_epoch(self._batch, self._state.order)[0][0]
        self._steps.run([[batch]])

    @property
    def _batch(self) -> int:
        return len(self._source) // 4


def counted(case: Case, processes: int) -> tuple[list[int], int, int]:
    """Numbers in the messages of a step as the library sends them; parameters, their tensors."""
    reducer = OneOf(processes)
    network = Trained(case, reducer)
    network.step()  # the first one also makes the codes
    reducer.sizes.clear()
    network.step()
    return reducer.sizes, network.parameters, network.tensors


# ------------------------------------------------------------------ measured on this machine


def lowest(values: Sequence[float]) -> float:
    """The mean of the lower quarter: what it takes where nothing else runs."""
    kept = sorted(values)[: max(1, len(values) // 4)]
    return statistics.fmean(kept)


def compute_seconds(case: Case, processes: int, repeats: int) -> dict[str, float]:
    """Processor time of a step in one of several processes, and what it should depend on."""
    network = Trained(case, OneOf(processes) if processes > 1 else None)
    network.step()
    with FlopCounterMode(display=False) as counter:
        network.step()
    taken = []
    for _ in range(repeats):
        start = time.thread_time()
        network.step()
        taken.append(time.thread_time() - start)
    return {
        "seconds": lowest(taken),
        "flops": float(counter.get_total_flops()),
        "parameters": float(network.parameters),
        "layers": float(len(case.dims) * (len(case.hidden) + 1)),
        "draws": float(case.batch * sum(case.dims)),
        "processes": float(processes),
    }


DESIGN = tuple(
    Case(batch, dims, labels, hidden, embedding)
    for batch, dims, labels, hidden, embedding in (
        (64, (40, 30), 12, (64,), 64),
        (256, (40, 30), 12, (64,), 64),
        (128, (200, 100, 60, 40), 20, (128,), 64),
        (512, (200, 100, 60, 40), 20, (128,), 64),
        (128, (400,) * 6, 60, (128,), 128),
        (128, (2000, 1500), 200, (256,), 128),
        (512, (1000, 500, 500), 100, (256,), 128),
        (256, (100,) * 3, 30, (128, 128), 64),
    )
)
VALIDATION = (
    Case(256, (300, 200, 100), 40, (128,), 64),
    Case(512, (1200, 800), 120, (256,), 128),
)
STEPS = 60  # of which the fastest is the one that other programs disturbed least
SIZES = (1, 64, 1024, 16_384, 262_144, 2_097_152)


def worker(folder: Path) -> None:
    """One of several processes: reductions by themselves, then steps."""
    torch.set_num_threads(1)
    with process_group("gloo") as group:
        found: dict[str, Any] = {"reduce": [], "steps": []}
        for numbers in SIZES:
            found["reduce"].append(_reduction_in_a_step(numbers))
        for case in VALIDATION:
            network = Trained(case, ProcessReducer() if group.world_size > 1 else None)
            network.step()
            clock, own = _timed(network.step, STEPS)
            found["steps"].append([min(clock), statistics.median(clock), lowest(own)])
        everyone = group.gather_objects(found)
        if group.is_main:
            (folder / "found.json").write_text(json.dumps(everyone))


def _reduction_in_a_step(numbers: int) -> list[float]:
    """What a reduction adds to work of its processes, on the clock and of the processor.

    Without work between them, reductions are several times as fast: nobody has to be woken.
    """
    value, matrix = torch.zeros(numbers), torch.ones(200, 200)

    def work() -> None:
        for _ in range(5):
            matrix.mm(matrix)

    def both() -> None:
        work()
        dist.all_reduce(value)

    alone, together = _timed(work, 40), _timed(both, 40)
    return [
        max(0.0, lowest(more) - lowest(less)) for less, more in zip(alone, together, strict=True)
    ]


def _timed(work: Callable[[], Any], repeats: int) -> tuple[list[float], list[float]]:
    """Seconds on the clock, and of the processor, that the processes take together each time."""
    clock, own = [], []
    for _ in range(repeats):
        dist.barrier()
        start, start_own = time.perf_counter(), time.thread_time()
        work()
        clock.append(time.perf_counter() - start)
        own.append(time.thread_time() - start_own)
    return clock, own


def run_workers(processes: int, folder: Path) -> list[dict[str, Any]]:
    """What every one of several gloo processes on this machine has measured."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--local-addr=127.0.0.1", f"--nproc-per-node={processes}"]
    command += ["-m", "benchmarks.scaling", "worker", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run(command, check=True, timeout=400, env=environment)
    found: list[dict[str, Any]] = json.loads((folder / "found.json").read_text())
    return found


def measure(folder: Path, most: int, repeats: int) -> dict[str, Any]:
    """Constants of this machine, and predictions beside what 1 to `most` processes took."""
    torch.set_num_threads(1)
    design = [(case, p) for case in DESIGN for p in (1, 2, 8)]
    computed = [compute_seconds(case, p, repeats) for case, p in design]
    rows, seconds = [features(own) for own in computed], [own["seconds"] for own in computed]
    compute = fit_relative(rows, seconds)
    fitted = [float(np.dot(compute, row)) for row in rows]
    load = os.getloadavg()[0]
    runs = {p: run_workers(p, folder) for p in range(1, most + 1)}
    sent = [(n, p, k) for p in runs if p > 1 for k, n in enumerate(SIZES)]
    rows = [reduce_features(n, p) for n, p, _ in sent]
    reduce, own = (
        fit_relative(
            rows, [max(1e-6, *(one["reduce"][k][i] for one in runs[p])) for _, p, k in sent]
        )
        for i in range(2)
    )
    cores = len(os.sched_getaffinity(0))
    constants = {
        "compute": dict(zip(COMPUTE, compute, strict=True)),
        "reduce": dict(zip(REDUCE, reduce, strict=True)),
        "reduce_processor": dict(zip(REDUCE, own, strict=True)),
    }
    return {
        "machine": machine_name("cpu"),
        "cores": cores,
        "load_average": [round(load, 1), round(os.getloadavg()[0], 1)],
        "torch": torch.__version__,
        "constants": constants,
        "fit_errors": errors_of(fitted, seconds),
        "design": [
            asdict(case) | {"processes": p, "measured_ms": 1e3 * s, "fitted_ms": 1e3 * f}
            for (case, p), s, f in zip(design, seconds, fitted, strict=True)
        ],
        "reductions": [
            {"numbers": n, "processes": p, "ms": [1e3 * one["reduce"][k][0] for one in runs[p]]}
            for n, p, k in sent
        ],
        "validation": [
            line
            for k, case in enumerate(VALIDATION)
            for line in validated(case, k, runs, constants, cores, repeats)
        ],
    }


def validated(
    case: Case,
    index: int,
    runs: dict[int, list[dict[str, Any]]],
    constants: dict[str, dict[str, float]],
    cores: int,
    repeats: int,
) -> list[dict[str, Any]]:
    """Predicted and measured steps of a case that the constants were not fitted to."""
    lines = []
    for p, found in runs.items():
        # Only the features are taken from this: nothing of the time.
        known = compute_seconds(case, p, 1)
        own = float(np.dot(list(constants["compute"].values()), features(known)))
        sizes = messages(case, p, *counted(case, p)[1:]) if p > 1 else []
        sent = sum(reduction_seconds(n, p, constants["reduce"]) for n in sizes)
        busy = own + sum(reduction_seconds(n, p, constants["reduce_processor"]) for n in sizes)
        on_clock = max(own_found["steps"][index][0] for own_found in found)
        on_processor = max(own_found["steps"][index][2] for own_found in found)
        predicted = own * max(1.0, p / cores) + sent
        lines.append(
            {
                "case": asdict(case),
                "processes": p,
                "messages": len(sizes),
                "bytes": FLOAT * sum(sizes),
                "predicted_ms": {"compute": 1e3 * own, "reductions": 1e3 * sent},
                "predicted_clock_ms": 1e3 * predicted,
                "measured_clock_ms": 1e3 * on_clock,
                "median_clock_ms": 1e3 * max(own["steps"][index][1] for own in found),
                "predicted_processor_ms": 1e3 * busy,
                "measured_processor_ms": 1e3 * on_processor,
                "error_clock": predicted / on_clock - 1,
                "error_processor": busy / on_processor - 1,
            }
        )
    return lines


def large_network() -> dict[str, Any]:
    """Parameters of the large network, operations of a sample, and seconds to order a row."""
    network = Trained(replace(LARGE, batch=64))
    with FlopCounterMode(display=False) as counter:
        network.step()
    rows = 5_000_000
    start = time.process_time()
    torch.randperm(rows)
    return {
        "parameters": network.parameters,
        "tensors": network.tensors,
        "flops_of_a_sample": counter.get_total_flops() / 64,
        "order_ns_a_row": 1e9 * (time.process_time() - start) / rows,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    found = commands.add_parser("measure")
    found.add_argument("--out", type=Path, default=KEPT)
    found.add_argument("--most", type=int, default=4, help="processes")
    found.add_argument("--repeats", type=int, default=24)
    wanted = commands.add_parser("predict")
    wanted.add_argument("--kept", type=Path, default=KEPT)
    for name, value in asdict(Machine()).items():
        wanted.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    commands.add_parser("worker").add_argument("folder", type=Path)
    commands.add_parser("table").add_argument("--kept", type=Path, default=KEPT)
    options = parser.parse_args(arguments)
    if options.command == "worker":
        worker(options.folder)
    elif options.command == "measure":
        with tempfile.TemporaryDirectory() as folder:
            measured = measure(Path(folder), options.most, options.repeats)
        measured["large"] = large_network()
        measured["predicted"] = predict(measured, Machine())
        options.out.write_text(json.dumps(rounded(measured), indent=1) + "\n")
    elif options.command == "table":
        print(tables(json.loads(options.kept.read_text())))
    else:
        machine = Machine(**{name: getattr(options, name) for name in asdict(Machine())})
        for line in predict(json.loads(options.kept.read_text()), machine):
            print(json.dumps(rounded(line)))


def rounded(value: Any) -> Any:
    """Four digits of every number."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
