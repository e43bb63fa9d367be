"""The cost model of a step on several processes, without measuring anything; see `scaling`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

import viewgap
from benchmarks.data import COREL5K

CODE_DIM = 4  # of SCSD
FLOAT = 4  # bytes
BYTES_OF_A_VALUE = 3 * FLOAT  # that is written: on average two are read for it
COMPUTE = ("step", "call", "value", "flop")
TOGETHER = ("busy", "message", "waiting", "byte")
CONSTANTS = {"compute": COMPUTE, "together": TOGETHER}


# Networks that the constants are fitted to, and two groups of those that they are not.
CALIBRATION, VALIDATION, SWEEP = "calibration", "validation", "one at a time"


@dataclass(frozen=True)
class Case:
    """A network and its batches: `batch` samples for all processes together."""

    batch: int
    dims: tuple[int, ...]
    labels: int
    hidden: tuple[int, ...]
    embedding: int
    codebook: int = 256

    def model(self) -> viewgap.SCSD:
        """One network, as the default profile has it."""
        sizes: dict[str, Any] = {
            "hidden": self.hidden,
            "embedding": self.embedding,
            "batch_size": self.batch,
            "codebook_size": self.codebook,
            "n_networks": 1,
            "validation_fraction": 0.0,
        }
        return viewgap.SCSD(device="cpu", precision="highest", random_state=0, **sizes)


BASE = Case(256, (200,) * 3, 50, (128,), 64)  # of which `SWEEP` changes one thing at a time


def messages(case: Case, processes: int, parameters: int, tensors: int) -> list[int]:
    """Numbers in every message of a step of one network, in no order.

    Statistics of every normalisation, those of each process side by side (mean and variance of
    hidden units, and a count), and their gradients; sums and counts of the codes; sums and counts
    of the losses; all gradients at once, with a mark for every tensor that has one.
    """
    views = len(case.dims)
    norms = [processes * (2 * units + 1) for units in case.hidden] * views
    losses = [2, 2, 2 * views, 2 * views, 1]
    codes = case.codebook * (CODE_DIM + 1)
    return [*norms, *norms, *losses, *losses, codes, 1, parameters + tensors]


# ------------------------------------------------------------------ constants


def compute_features(line: dict[str, Any]) -> list[float]:
    """What a step without messages is a sum of: see `COMPUTE`."""
    return [1.0, *(float(line[name]) for name in ("calls", "values", "flops"))]


def together_features(line: dict[str, Any], own: float) -> list[float]:
    """What a step of several processes is a sum of: see `TOGETHER`.

    `own`: seconds that one of them computes. Processes beyond the cores wait for each other.
    """
    processes, messages, cores = line["processes"], line["messages"], line["cores"]
    share = 2 * (processes - 1) / processes
    return [
        own * max(1.0, processes / cores),
        float(messages),
        float(messages * max(0, processes - cores)),
        share * line["bytes"] * max(1.0, processes / cores),
    ]


def fit_relative(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Constants >= 0 that bring the relative errors down."""
    matrix = np.asarray(rows) / np.asarray(seconds)[:, None]
    scale = np.where(matrix.max(axis=0) > 0, matrix.max(axis=0), 1.0)
    found, _ = nnls(matrix / scale, np.ones(len(seconds)))
    return [float(value) for value in found / scale]


def fit(lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Constants of measured steps: of one process, then of what several add to that."""
    constants = {name: dict.fromkeys(own, 0.0) for name, own in CONSTANTS.items()}
    for name, is_alone in (("compute", True), ("together", False)):
        own = [line for line in lines if line["alone"] == is_alone]
        if own:
            rows = [
                compute_features(line)
                if is_alone
                else together_features(line, step_seconds(line, constants)[0])
                for line in own
            ]
            found = fit_relative(rows, [line["ms"] / 1e3 for line in own])
            constants[name] = dict(zip(CONSTANTS[name], found, strict=True))
    return constants


def step_seconds(
    line: dict[str, Any], constants: dict[str, dict[str, float]]
) -> tuple[float, float]:
    """Seconds of a step that a process computes, and those of the whole step."""
    own = float(np.dot(list(constants["compute"].values()), compute_features(line)))
    if line["alone"]:
        return own, own
    together = list(constants["together"].values())
    return own, float(np.dot(together, together_features(line, own)))


def errors_of(errors: Sequence[float]) -> dict[str, float]:
    """Of relative errors: how many there are, the median and the largest."""
    sizes = [abs(error) for error in errors] or [0.0]
    return {
        "count": len(errors),
        "median": statistics.median(sizes),
        "largest": max(sizes),
    }


# ------------------------------------------------------------------ predicted for more of them


@dataclass(frozen=True)
class Machine:
    """What GPUs and the network between them do.

    Measured on an H200 (`benchmarks/recorded_processes.json`, one network): a recorded step of
    `LARGE` alone, `step_ms`, and in a group of one process, `shared_ms`; `host_ms`: the latter step
    by step. Published: `tflops` (TF32, dense), `memory_gbs`, `nvlink_gbs` and `pcie_gbs` (per GPU
    and direction), `network_gbs` (per host and direction: eight ports of 400 Gbit/s), latencies of
    a small reduction within a host and what hosts add. Assumed: `used`, the part of these that
    programs reach. Sources: docs/scaling.md.
    """

    step_ms: float = 1.812
    shared_ms: float = 4.059
    host_ms: float = 64.21
    tflops: float = 495.0
    memory_gbs: float = 4800.0
    nvlink_gbs: float = 450.0
    pcie_gbs: float = 64.0
    network_gbs: float = 400.0
    used: float = 0.5
    latency_us: float = 34.0
    host_latency_us: float = 88.0
    per_host: int = 8


# A network of the default profile on the widths of Corel5k.
_DEFAULT = viewgap.SCSD()._resolve(COREL5K.labels)
LARGE = Case(
    _DEFAULT.batch_size,
    COREL5K.dims,
    COREL5K.labels,
    tuple(_DEFAULT.hidden),
    _DEFAULT.embedding,
    _DEFAULT.codebook_size,
)
SAMPLES = 1_000_000_000
BYTES_OF_A_SAMPLE = FLOAT * sum(LARGE.dims) / 2  # half of the views are missing


@dataclass(frozen=True)
class Step:
    """A step of one network on every GPU, in ms.

    `feed`: values of the views on their way from host to GPU; `sent`: bytes that a GPU sends.
    """

    gpus: int
    per_gpu: int
    host: float
    device: float
    feed: float
    latency: float
    transfer: float
    sent: float

    @property
    def total(self) -> float:
        """Host, device and feed work at the same time; nothing hides the reductions."""
        return max(self.host, self.device, self.feed) + self.latency + self.transfer

    @property
    def samples_per_second(self) -> float:
        return 1e3 * self.gpus * self.per_gpu / self.total


def predict_step(
    gpus: int,
    per_gpu: int,
    large: dict[str, Any],
    sizes: Sequence[int],
    host_ms: float,
    machine: Machine,
) -> Step:
    """A step of one network; `large`: what it consists of, `host_ms`: 0 for recorded steps.

    One GPU alone has recorded ones, and kernels that several cannot use. More samples than were
    measured take longer for their matrix products, and for the values that they write and read.
    """
    more = max(0.0, per_gpu - LARGE.batch)
    device = machine.step_ms if gpus == 1 else machine.shared_ms
    products = more * large["flops_of_a_sample"] / (1e12 * machine.tflops)
    values = more * large["values_of_a_sample"] * BYTES_OF_A_VALUE / (1e9 * machine.memory_gbs)
    device += 1e3 * (products + values) / machine.used
    feed = 1e3 * per_gpu * BYTES_OF_A_SAMPLE / (1e9 * machine.pcie_gbs * machine.used)
    if gpus == 1:
        return Step(1, per_gpu, 0.0, device, feed, 0.0, 0.0, 0.0)
    hosts = -(-gpus // machine.per_host)
    latency = machine.latency_us + (machine.host_latency_us if hosts > 1 else 0.0)
    sent = 2 * (gpus - 1) / gpus * FLOAT * sum(sizes)
    speed = machine.nvlink_gbs if hosts == 1 else min(machine.nvlink_gbs, machine.network_gbs)
    transfer = 1e3 * sent / (1e9 * speed * machine.used)
    return Step(gpus, per_gpu, host_ms, device, feed, len(sizes) * latency / 1e3, transfer, sent)


def fused(case: Case, processes: int, parameters: int, tensors: int) -> list[int]:
    """Messages if the statistics of all views of a layer were one, and all losses one."""
    views, given = len(case.dims), messages(case, processes, parameters, tensors)
    norms = [views * processes * (2 * units + 1) for units in case.hidden]
    return [*norms, *norms, sum(given) - 2 * sum(norms) - given[-1], 1, given[-1]]


def predict(kept: dict[str, Any], machine: Machine) -> list[dict[str, Any]]:
    """Steps of the large network on 1, 8 and 64 GPUs: recorded, or what else they could be."""
    large = kept["large"]
    parameters, tensors = large["parameters"], large["tensors"]
    ways: list[tuple[str, Callable[..., list[int]], float, tuple[int, ...]]] = [
        ("recorded", messages, 0.0, (1, 8, 64)),
        ("one message a layer", fused, 0.0, (8, 64)),
        ("step by step", messages, machine.host_ms, (8, 64)),
    ]
    lines = []
    for name, sent_in, host_ms, counts in ways:
        for gpus in counts:
            sent = sent_in(LARGE, gpus, parameters, tensors)
            for per_gpu in (256, 1024, 8192):
                work = (per_gpu, large, sent, host_ms, machine)
                step, alone = predict_step(gpus, *work), predict_step(1, *work)
                lines.append(_line(name, step, alone, len(sent), 1e-9 * large["order_ns_a_row"]))
    return lines


def _line(
    name: str, step: Step, alone: Step, n_messages: int, order_seconds: float
) -> dict[str, Any]:
    """`order_seconds`: to draw the order of a row, which every process does for all rows."""
    seconds = SAMPLES * (1 / step.samples_per_second + order_seconds)
    several = step.gpus > 1
    return {
        "way": name,
        "gpus": step.gpus,
        "batch_per_gpu": step.per_gpu,
        "messages": n_messages if several else 0,
        "step_ms": step.total,
        "host_ms": step.host,
        "device_ms": step.device,
        "feed_ms": step.feed,
        "latency_ms": step.latency,
        "transfer_ms": step.transfer,
        "sent_mb": step.sent / 1e6,
        "efficiency": step.samples_per_second / step.gpus / alone.samples_per_second,
        "epoch_minutes": seconds / 60,
        "sent_tb_an_epoch": step.sent * SAMPLES / (step.gpus * step.per_gpu) / 1e12,
        "read_gb_a_second": BYTES_OF_A_SAMPLE * step.samples_per_second / 1e9,
    }


def explained(measured: dict[str, Any]) -> dict[str, Any]:
    """What was measured, with the constants, what they say of it, and the predictions."""
    lines = measured["measured"]
    constants = fit([line for line in lines if line["group"] == CALIBRATION])
    kept = []
    for line in lines:
        own, whole = step_seconds(line, constants)
        said = {"computed_ms": 1e3 * own, "predicted_ms": 1e3 * whole}
        kept.append(line | said | {"error": 1e3 * whole / line["ms"] - 1})
    errors = {
        group: {
            name: errors_of([line["error"] for line in kept if line["group"] == group and of(line)])
            for name, of in KINDS_OF_STEPS.items()
        }
        for group in dict.fromkeys(line["group"] for line in kept)
    }
    found = measured | {"constants": constants, "errors": errors, "measured": kept}
    return found | {"predicted": predict(found, Machine())}


KINDS_OF_STEPS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "all": lambda line: True,
    "one process": lambda line: line["alone"],
    "a core for each": lambda line: not line["alone"] and line["processes"] <= line["cores"],
    "too few cores": lambda line: not line["alone"] and line["processes"] > line["cores"],
}


def rounded(value: Any) -> Any:
    """Four digits of every number."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


# ------------------------------------------------------------------ shown


def tables(kept: dict[str, Any]) -> list[str]:
    """What is kept, as Markdown."""
    constants = kept["constants"]["compute"] | kept["constants"]["together"]
    errors = [
        (group, kind, own["count"], *(f"{100 * own[k]:.0f} %" for k in ("median", "largest")))
        for group, kinds in kept["errors"].items()
        for kind, own in kinds.items()
        if own["count"]
    ]
    return [
        _table(("constant", "value"), [(name, f"{own:.2e}") for name, own in constants.items()]),
        _table(("networks", "steps", "number", "median error", "largest"), errors),
        _table(
            ("views, batch", "processes", "cores", *STEP_COLUMNS),
            [
                (_name(line["case"]), line["processes"], line["cores"], *_step_cells(line))
                for line in kept["measured"]
                if line["group"] == VALIDATION
            ],
        ),
        _table(
            ("changed", "processes", "cores", *STEP_COLUMNS),
            [
                (_changed(line["case"]), line["processes"], line["cores"], *_step_cells(line))
                for line in kept["measured"]
                if line["group"] == SWEEP
            ],
        ),
        _table(PREDICTED, [_predicted_cells(line) for line in kept["predicted"]]),
    ]


STEP_COLUMNS = ("predicted", "measured", "error", "rounds", "computed", "messages", "MB")
PREDICTED = (
    *("way", "GPUs", "batch of a GPU", "step", "efficiency", "minutes an epoch", "messages"),
    *("host", "device", "feed", "latency", "transfer"),
    *("MB sent a step", "TB an epoch", "GB/s read"),
)


def _name(case: dict[str, Any]) -> str:
    return f"{len(case['dims'])} views, {case['batch']}"


def _changed(case: dict[str, Any]) -> str:
    values = {
        "batch": (case["batch"], BASE.batch),
        "views": (len(case["dims"]), len(BASE.dims)),
        "width": (case["dims"][0], BASE.dims[0]),
        "labels": (case["labels"], BASE.labels),
    }
    found = [f"{name} {own}" for name, (own, base) in values.items() if own != base]
    return ", ".join(found) or "nothing"


def _step_cells(line: dict[str, Any]) -> list[str]:
    rounds = line["rounds_ms"]
    return [
        *(f"{line[name]:.1f}" for name in ("predicted_ms", "ms")),
        f"{100 * line['error']:+.0f} %",
        f"{min(rounds):.0f}–{max(rounds):.0f}",
        f"{line['computed_ms']:.1f}",
        str(line["messages"]),
        f"{line['bytes'] / 1e6:.2f}",
    ]


def _predicted_cells(line: dict[str, Any]) -> list[str]:
    parts = ("host_ms", "device_ms", "feed_ms", "latency_ms", "transfer_ms")
    return [
        line["way"],
        str(line["gpus"]),
        f"{line['batch_per_gpu']:,}",
        f"{line['step_ms']:.2f}",
        f"{100 * line['efficiency']:.0f} %",
        f"{line['epoch_minutes']:.1f}",
        str(line["messages"]),
        *(f"{line[name]:.2f}" for name in parts),
        f"{line['sent_mb']:.0f}",
        f"{line['sent_tb_an_epoch']:.1f}",
        f"{line['read_gb_a_second']:.1f}",
    ]


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
