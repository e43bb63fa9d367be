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
COMPUTE = ("step", "layer", "layer_shared", "parameter", "flop", "draw")
REDUCE = ("call", "neighbour", "byte")


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


def features(found: dict[str, float]) -> list[float]:
    """What the time of a step is a sum of: see `COMPUTE`."""
    several = float(found["processes"] > 1)
    copies = found["parameters"] * (1 + several)
    return [1.0, found["layers"], several * found["layers"], copies, found["flops"], found["draws"]]


def fit_relative(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Constants >= 0 that bring the relative errors down."""
    matrix = np.asarray(rows) / np.asarray(seconds)[:, None]
    scale = np.where(matrix.max(axis=0) > 0, matrix.max(axis=0), 1.0)
    found, _ = nnls(matrix / scale, np.ones(len(seconds)))
    return [float(value) for value in found / scale]


def reduce_features(numbers: int, processes: int) -> list[float]:
    """What a reduction is a sum of: see `REDUCE`."""
    share = 2 * (processes - 1) / processes
    return [1.0, float(processes - 1), share * numbers * FLOAT]


def reduction_seconds(numbers: int, processes: int, constants: dict[str, float]) -> float:
    """The time of one reduction."""
    return float(np.dot(list(constants.values()), reduce_features(numbers, processes)))


def errors_of(fitted: Sequence[float], seconds: Sequence[float]) -> dict[str, float]:
    """Median and largest relative error."""
    errors = [abs(f / s - 1) for f, s in zip(fitted, seconds, strict=True)]
    return {"median": statistics.median(errors), "largest": max(errors)}


# ------------------------------------------------------------------ predicted for more of them


@dataclass(frozen=True)
class Machine:
    """What GPUs and the network between them do.

    `step_ms`: a recorded step of `LARGE` with 128 samples, measured on an H200: a third of that
    of three such networks (`benchmarks/latest.json`, scsd_step_default). Published: `tflops`
    (H200, TF32, dense), `nvlink_gbs` and `pcie_gbs` (per GPU and direction), `network_gbs` (per
    host and direction: eight ports of 400 Gbit/s). Assumed: `used`, the part of these that programs
    reach, and the latencies of a small reduction within a host and between hosts.
    """

    step_ms: float = 2.056
    tflops: float = 495.0
    nvlink_gbs: float = 450.0
    pcie_gbs: float = 64.0
    network_gbs: float = 400.0
    used: float = 0.5
    latency_us: float = 20.0
    host_latency_us: float = 40.0
    per_host: int = 8


# A network of the default profile on the widths of Corel5k.
LARGE = Case(128, COREL5K.dims, COREL5K.labels, (512,), 256)
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
    flops: float,
    sizes: Sequence[int],
    host_ms: float,
    machine: Machine,
) -> Step:
    """A step of one network; `flops`: of a sample.

    `host_ms`: of a step that is not recorded. One GPU alone has recorded ones.
    """
    more = max(0.0, (per_gpu - LARGE.batch) * flops)
    device = machine.step_ms + 1e3 * more / (1e12 * machine.tflops * machine.used)
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
    """Steps of the large network on 1, 8 and 64 GPUs, as it is and with what would help."""
    large = kept["large"]
    parameters, tensors = large["parameters"], large["tensors"]
    constants = kept["constants"]["compute"]
    layers = len(LARGE.dims) * (len(LARGE.hidden) + 1)
    host = 1e3 * (constants["step"] + layers * (constants["layer"] + constants["layer_shared"]))
    ways: list[tuple[str, Callable[..., list[int]], float]] = [
        ("as it is", messages, host),
        ("one message a layer", fused, host),
        ("and recorded steps", fused, 0.0),
    ]
    lines = []
    for name, sent_in, host_ms in ways:
        for gpus in (1, 8, 64):
            sent = sent_in(LARGE, gpus, parameters, tensors)
            for per_gpu in (128, 1024, 8192):
                if gpus == 1 and name != ways[0][0]:
                    continue
                work = (per_gpu, large["flops_of_a_sample"], sent, host_ms, machine)
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


def tables(kept: dict[str, Any]) -> str:
    """What is kept, as Markdown."""
    constants = kept["constants"]["compute"] | kept["constants"]["reduce"]
    checked = [
        (
            f"{len(line['case']['dims'])} views, batch {line['case']['batch']}",
            line["processes"],
            f"{line['bytes'] / 1e6:.2f}",
            *(f"{line['predicted_ms'][name]:.1f}" for name in ("compute", "reductions")),
            *(f"{line[f'{name}_processor_ms']:.1f}" for name in ("predicted", "measured")),
            f"{100 * line['error_processor']:+.0f} %",
            f"{line['predicted_clock_ms']:.1f}",
            f"{line['measured_clock_ms']:.1f}",
            f"{100 * line['error_clock']:+.0f} %",
        )
        for line in kept["validation"]
    ]
    predicted = [
        (
            line["way"],
            line["gpus"],
            f"{line['batch_per_gpu']:,}",
            line["messages"],
            *(
                f"{line[n]:.2f}"
                for n in ("host_ms", "device_ms", "feed_ms", "latency_ms", "transfer_ms")
            ),
            f"{line['step_ms']:.2f}",
            f"{100 * line['efficiency']:.0f} %",
            f"{line['epoch_minutes']:.1f}",
            f"{line['sent_mb']:.0f}",
            f"{line['sent_tb_an_epoch']:.1f}",
            f"{line['read_gb_a_second']:.1f}",
        )
        for line in kept["predicted"]
    ]
    return "\n\n".join(
        [
            _table(
                "constant seconds", [(name, f"{value:.2e}") for name, value in constants.items()]
            ),
            _table(CHECKED, checked),
            _table(PREDICTED, predicted),
        ]
    )


CHECKED = (
    "case,processes,MB,compute,reductions,processor predicted,measured,error,"
    "clock predicted,measured,error"
)
PREDICTED = (
    "way,GPUs,batch of a GPU,messages,host,device,feed,latency,transfer,step,efficiency,"
    "minutes an epoch,MB sent a step,TB an epoch,GB/s read"
)


def _table(head: str, rows: Sequence[Sequence[Any]]) -> str:
    names = head.split(",") if "," in head else head.split(" ")
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
