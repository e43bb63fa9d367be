"""Every batch statistic can be made global: two workers with half a batch each see the whole."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.methods.scsd.settings import PROFILES, SCSDSettings
from viewgap.nn.fusion import label_correlation
from viewgap.nn.reduce import Reducer, set_reducer
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.sampled import Layout
from viewgap.training.batches.source import BatchSource
from viewgap.training.runtime import choose_runtime

DIMS = (5, 3)
SMALL = {"hidden": (8,), "embedding": 8, "codebook_size": 11}
DEFAULT, RELEASED = SCSDSettings(**SMALL), replace(PROFILES["paper"](4), **SMALL)
PRINTED = replace(PROFILES["equations"](4), **SMALL)


class Meeting:
    """Where two workers add up what they bring, in the order in which both come."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2, timeout=60)
        self.brought: list[Tensor] = [torch.zeros(()), torch.zeros(())]

    def add(self, worker: int, value: Tensor) -> Tensor:
        self.brought[worker] = value
        self.barrier.wait()
        total = self.brought[0] + self.brought[1]
        self.barrier.wait()
        return total


class WorkerReducer(Reducer):
    def __init__(self, meeting: Meeting, worker: int) -> None:
        self.meeting = meeting
        self.rank = worker
        self.count = 2

    def sum(self, value: Tensor) -> Tensor:
        return self.meeting.add(self.rank, value)


def make_batch(rows: slice, layout: Layout) -> Batch:
    rng = np.random.default_rng(0)
    observed = rng.random((12, 2)) > 0.4
    observed[:, 0] |= ~observed.any(axis=1)
    arrays = {f"v{d}": rng.random((12, d)) for d in DIMS}
    Y = (rng.random((12, 4)) > 0.5).astype(np.uint8)
    labels = Labels(Y, rng.random((12, 4)) > 0.3, tuple("abcd"))
    runtime = choose_runtime("cpu", "float64")
    source = BatchSource(ViewSet(arrays, observed), labels, None, runtime)
    return source.batch(torch.arange(12)[rows], layout)


def make_network(settings: SCSDSettings) -> SCSDNetwork:
    network = SCSDNetwork(DIMS, 4, settings, torch.Generator().manual_seed(0)).double()
    positives = make_batch(slice(0, 12), Layout()).labels.float()
    correlation = label_correlation(positives, settings.correlation_diagonal)
    network.label_correlation.copy_(correlation)
    network.codebook.started.fill_(True)  # starting codes come from one worker's rows
    return network


def work(
    meeting: Meeting, worker: int, settings: SCSDSettings, layout: Layout
) -> tuple[dict[str, Tensor], SCSDNetwork]:
    network = make_network(settings)
    set_reducer(network, WorkerReducer(meeting, worker))
    batch = make_batch(slice(6 * worker, 6 * worker + 6), layout)
    with torch.no_grad():
        return network.loss_terms(batch), network


@pytest.mark.parametrize("rows", ["dense", "packed"])
@pytest.mark.parametrize(
    "settings", [DEFAULT, RELEASED, PRINTED], ids=["default", "released", "as printed"]
)
def test_two_halves_equal_the_whole(settings: SCSDSettings, rows: str) -> None:
    meeting, layout = Meeting(), Layout(rows, settings.norm_rows, "cross")
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda worker: work(meeting, worker, settings, layout), range(2)))
    network = make_network(settings)
    expected = network.loss_terms(make_batch(slice(0, 12), layout))
    for terms, half in found:
        for name, value in expected.items():
            torch.testing.assert_close(terms[name], value.detach())
        for (name, whole), mine in zip(network.named_buffers(), half.buffers(), strict=True):
            torch.testing.assert_close(mine, whole, msg=name)


ONE_PROCESS = """
import os, sys, torch, torch.distributed as dist
from viewgap.nn.reduce import ProcessReducer
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
x = torch.arange(3.0, requires_grad=True)
total = ProcessReducer().sum(x * 2)
(total * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
print(total.tolist(), x.grad.tolist(), flush=True)
os._exit(0)  # the backend's threads do not always survive an orderly exit
"""


@pytest.mark.slow
def test_process_reducer_passes_values_and_gradients(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ONE_PROCESS, str(tmp_path / "meet")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split("\n")[0] == "[0.0, 2.0, 4.0] [2.0, 20.0, 200.0]"
