"""What a step of SCSD costs on several processes: measured here, predicted for more.

    python -m benchmarks.scaling measure            # all figures: scaling.json
    python -m benchmarks.scaling predict            # 1, 8 and 64 GPUs, a billion samples
    python -m benchmarks.scaling table              # the tables of docs/scaling.md

What a step consists of (calls of torch, values, operations, messages, bytes) is counted, and takes
no clock. What each of them costs is fitted to measured steps of some networks, and then says how
long those of others take: see `_scaling_model`. Times are those of whole steps on the clock, as a
fit takes them: the mean of 16 in a row, and of some rounds the median.
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
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from benchmarks._scaling_model import (
    BASE,
    CALIBRATION,
    FLOAT,
    LARGE,
    SWEEP,
    VALIDATION,
    Case,
    Machine,
    explained,
    predict,
    rounded,
    tables,
)
from benchmarks._step import begin_fit
from benchmarks.data import Shape, learnable_data
from benchmarks.machine import machine_name
from viewgap.nn.reduce import ProcessReducer, Reducer, set_reducer
from viewgap.training.processes import process_group
from viewgap.training.steps.epoch import PlainSteps

KEPT = Path(__file__).with_suffix(".json")

GROUPS = {
    # The constants are fitted to these, ...
    CALIBRATION: tuple(
        Case(batch, dims, labels, hidden, embedding)
        for batch, dims, labels, hidden, embedding in (
            (64, (40, 30), 12, (64,), 64),
            (128, (200, 100, 60, 40), 20, (128,), 64),
            (512, (200, 100, 60, 40), 20, (128,), 64),
            (128, (400,) * 6, 60, (128,), 128),
            (128, (2000, 1500), 200, (256,), 128),
            (512, (1000, 500, 500), 100, (256,), 128),
            (256, (100,) * 3, 30, (128, 128), 64),
            (256, (60,) * 8, 500, (64,), 64),
            (1024, (300, 100), 40, (128,), 64),
        )
    ),
    # ... and to none of these.
    VALIDATION: (
        Case(256, (300, 200, 100), 40, (128,), 64),
        Case(512, (1200, 800), 120, (256,), 128),
        Case(384, (150,) * 5, 80, (192,), 96),
        Case(192, (700, 60, 20), 300, (256,), 64),
        Case(768, (90, 40, 250, 30), 25, (96,), 48),
    ),
    SWEEP: (
        BASE,
        *(replace(BASE, batch=batch) for batch in (64, 128, 512, 1024)),
        *(replace(BASE, dims=(200,) * views) for views in (2, 5, 8)),
        *(replace(BASE, dims=(width,) * 3) for width in (50, 800, 1600)),
        *(replace(BASE, labels=labels) for labels in (10, 200, 500)),
    ),
}


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


PROCESSES = [1, 2, 3, 4]

STEPS = 8  # of an epoch of the measured networks


class Trained:
    """A network at its first epochs, as a fit takes them; `reducer`: of the processes."""

    def __init__(self, case: Case, reducer: Reducer | None = None) -> None:
        X, Y = learnable_data(Shape(STEPS * case.batch, case.dims, case.labels))
        model = case.model()
        self._state, self._source, _ = begin_fit(model, X, Y)
        if reducer is not None:
            self._source.runtime = replace(self._source.runtime, reducer=reducer)
            set_reducer(self._state.network, reducer)
        self._steps, self._batch = (
            PlainSteps(self._state, self._source, model.settings_),
            case.batch,
        )
        self._state.network.train()
        sizes = [p.numel() for p in self._state.network.parameters()]
        self.parameters, self.tensors = sum(sizes), len(sizes)

    def epoch(self) -> None:
        """`STEPS` steps on full batches."""
        batches = self._source.batches_of_epoch(self._batch, self._state.order)
        self._steps.run([own[:STEPS] for own in batches])


def counted(case: Case, processes: int) -> tuple[list[int], int, int]:
    """Numbers in the messages of a step as the library sends them; parameters, their tensors."""
    reducer = OneOf(processes)
    network = Trained(case, reducer)
    network.epoch()  # its first step also makes the codes
    reducer.sizes.clear()
    network.epoch()
    sent = len(reducer.sizes) // STEPS
    assert reducer.sizes == STEPS * reducer.sizes[:sent], "steps send different messages"
    return reducer.sizes[:sent], network.parameters, network.tensors


# ------------------------------------------------------------------ measured on this machine


class Tally(TorchDispatchMode):
    """What torch is asked to do: calls, and values that are written."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = self.values = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run `func`; results that only look at other tensors are not written."""
        found = func(*args, **(kwargs or {}))
        self.calls += 1
        looks = [own.alias_info for own in func._schema.returns]
        if not any(alias is not None and not alias.is_write for alias in looks):
            tensors = [own for own in tree_leaves(found) if isinstance(own, torch.Tensor)]
            self.values += sum(own.numel() for own in tensors)
        return found


@cache
def counts_of(case: Case, processes: int) -> dict[str, Any]:
    """What a step of the first of so many processes consists of, and its messages; no times."""
    reducer = OneOf(processes)
    network = Trained(case, reducer if processes > 1 else None)
    network.epoch()  # its first step also makes the codes
    reducer.sizes.clear()
    with FlopCounterMode(display=False) as products, Tally() as tally:
        network.epoch()
    return {
        "calls": tally.calls / STEPS,
        "values": tally.values / STEPS,
        "flops": products.get_total_flops() / STEPS,
        "messages": len(reducer.sizes) // STEPS,
        "bytes": FLOAT * sum(reducer.sizes) // STEPS,
    }


def worker(folder: Path) -> None:
    """One of several processes: the steps of every case in turn, all of them `rounds` times.

    One process alone can also take its part of the batches of several, and add up nothing.
    """
    torch.set_num_threads(1)
    given = json.loads((folder / "given.json").read_text())
    with process_group("gloo") as group:

        def reducer(part: int) -> Reducer | None:
            if group.world_size > 1:
                return ProcessReducer()
            return OneOf(part) if part > 1 else None

        networks = [
            [Trained(read_case(case), reducer(part)) for part in parts]
            for case, parts in given["work"]
        ]
        found: list[list[list[float]]] = [[[] for _ in own] for own in networks]
        for number in range(given["rounds"] + 1):
            for kept, own in zip(found, networks, strict=True):
                for times, network in zip(kept, own, strict=True):
                    dist.barrier()
                    start = time.perf_counter()
                    network.epoch()
                    network.epoch()
                    if number:  # the first round is to warm up
                        times.append((time.perf_counter() - start) / (2 * STEPS))
        everyone = group.gather_objects(found)
        if group.is_main:
            (folder / "found.json").write_text(json.dumps(everyone))


def run_workers(
    processes: int, work: Sequence[tuple[Case, Sequence[int]]], rounds: int
) -> list[list[list[float]]]:
    """Seconds of a step in every round, of every case and part: of the slowest process."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--local-addr=127.0.0.1", f"--nproc-per-node={processes}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = {"work": [(asdict(case), parts) for case, parts in work], "rounds": rounds}
        (folder / "given.json").write_text(json.dumps(given))
        command += ["-m", "benchmarks.scaling", "worker", str(folder)]
        subprocess.run(command, check=True, timeout=400, env=environment)
        everyone = json.loads((folder / "found.json").read_text())
    return [
        [np.max(times, axis=0).tolist() for times in zip(*parts, strict=True)]
        for parts in zip(*everyone, strict=True)
    ]


def measure(counts: Sequence[int], rounds: int, groups: Sequence[str]) -> dict[str, Any]:
    """Steps of the networks of these groups, by so many processes; nothing is fitted yet."""
    torch.set_num_threads(1)
    lines, cores = [], len(os.sched_getaffinity(0))
    for processes in counts:
        work = work_of(processes, groups)
        found = run_workers(processes, [(case, parts) for _, case, parts in work], rounds)
        for (group, case, parts), times in zip(work, found, strict=True):
            run = {
                "group": group,
                "case": asdict(case),
                "cores": cores,
                "alone": processes == 1,
            }
            lines += [
                run | {"processes": part} | counts_of(case, part) | times_of(seconds)
                for part, seconds in zip(parts, times, strict=True)
            ]
    return {"machine": machine_of(), "torch": torch.__version__, "measured": lines}


def work_of(processes: int, groups: Sequence[str]) -> list[tuple[str, Case, list[int]]]:
    """What so many processes are to do: group, case, and the parts of a batch that one takes."""
    return [
        (group, case, PROCESSES if processes == 1 and group == CALIBRATION else [processes])
        for group in groups
        for case in GROUPS[group]
        if group != SWEEP or processes <= 2 or case == BASE
    ]


def times_of(seconds: Sequence[float]) -> dict[str, Any]:
    """Milliseconds of a step: the median of the rounds, and all of them."""
    return {"ms": 1e3 * statistics.median(seconds), "rounds_ms": [1e3 * own for own in seconds]}


def machine_of() -> str:
    """The processor; how many of its cores were used is kept for every line."""
    return machine_name("cpu").partition(", ")[2]


def joined(kept: dict[str, Any], measured: dict[str, Any]) -> dict[str, Any]:
    """What was measured now, and what other runs on this machine have measured."""
    for name in ("machine", "torch"):
        if kept.get(name) != measured[name]:
            raise SystemExit(f"kept figures are of {kept.get(name)!r}, not {measured[name]!r}")
    now = {run_of(line) for line in measured["measured"]}
    other = [line for line in kept["measured"] if run_of(line) not in now]
    lines = sorted(other + measured["measured"], key=run_of)
    return measured | {"measured": lines}


def run_of(line: dict[str, Any]) -> tuple[int, int, int]:
    """The group, the processes that were started for it, and on how many cores."""
    started = 1 if line["alone"] else line["processes"]
    return list(GROUPS).index(line["group"]), started, line["cores"]


def large_network() -> dict[str, Any]:
    """Of the large network: parameters, what another sample adds, and seconds to order a row."""
    small, rows = replace(LARGE, batch=64), 50_000_000
    network, one, two = Trained(small), counts_of(small, 1), counts_of(replace(LARGE, batch=128), 1)
    start = time.thread_time()
    torch.randperm(rows)
    return {
        "parameters": network.parameters,
        "tensors": network.tensors,
        "flops_of_a_sample": (two["flops"] - one["flops"]) / 64,
        "values_of_a_sample": (two["values"] - one["values"]) / 64,
        "order_ns_a_row": 1e9 * (time.thread_time() - start) / rows,
    }


def read_case(kept: dict[str, Any]) -> Case:
    """The case that `asdict` was called on."""
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in kept.items()}
    return Case(**fields)


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    found = commands.add_parser("measure")
    found.add_argument("--out", type=Path, default=KEPT)
    found.add_argument("--join", action="store_true", help="other runs in the file stay")
    found.add_argument("--processes", type=int, nargs="+", choices=PROCESSES, default=PROCESSES)
    found.add_argument("--rounds", type=int, default=5)
    found.add_argument("--groups", nargs="+", choices=[*GROUPS], default=[*GROUPS])
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
        measured = measure(options.processes, options.rounds, options.groups)
        if options.join:
            measured = joined(json.loads(options.out.read_text()), measured)
        kept = explained(rounded(measured | {"large": large_network()}))
        options.out.write_text(json.dumps(rounded(kept), indent=1) + "\n")
    elif options.command == "table":
        print("\n\n".join(tables(json.loads(options.kept.read_text()))))
    else:
        machine = Machine(**{name: getattr(options, name) for name in asdict(Machine())})
        for line in predict(json.loads(options.kept.read_text()), machine):
            print(json.dumps(rounded(line)))


if __name__ == "__main__":
    main()
