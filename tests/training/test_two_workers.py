"""Every batch statistic can be made global: two workers with half a batch each see the whole."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from viewgap.methods._scsd_network import SCSDNetwork
from viewgap.methods._scsd_settings import SCSDSettings
from viewgap.nn.fusion import label_correlation
from viewgap.nn.reduce import Reducer, set_reducer
from viewgap.training.batches import Batch

DIMS = (5, 3)
SETTINGS = SCSDSettings(hidden=(8,), embedding=8, codebook_size=11)


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
        self.worker = worker

    def sum(self, value: Tensor) -> Tensor:
        return self.meeting.add(self.worker, value)


def make_batch(rows: slice) -> Batch:
    generator = torch.Generator().manual_seed(0)
    observed = torch.rand(12, 2, generator=generator) > 0.4
    observed[:, 0] |= ~observed.any(dim=1)
    views = [
        torch.rand(12, d, generator=generator).double() * observed[:, [v]]
        for v, d in enumerate(DIMS)
    ]
    mask = (torch.rand(12, 4, generator=generator) > 0.3).double()
    labels = (torch.rand(12, 4, generator=generator) > 0.5).double() * mask
    return Batch([x[rows] for x in views], None, observed[rows], labels[rows], mask[rows])


def make_network() -> SCSDNetwork:
    target = label_correlation(make_batch(slice(0, 12)).labels.float())
    network = SCSDNetwork(DIMS, target, SETTINGS, torch.Generator().manual_seed(0)).double()
    network.codebook.started.fill_(True)  # starting codes come from one worker's rows
    return network


def work(meeting: Meeting, worker: int) -> tuple[dict[str, Tensor], SCSDNetwork]:
    network = make_network()
    set_reducer(network, WorkerReducer(meeting, worker))
    with torch.no_grad():
        return network.loss_terms(make_batch(slice(6 * worker, 6 * worker + 6))), network


def test_two_halves_equal_the_whole() -> None:
    meeting = Meeting()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda worker: work(meeting, worker), range(2)))
    network = make_network()
    expected = network.loss_terms(make_batch(slice(0, 12)))
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


def test_process_reducer_passes_values_and_gradients(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ONE_PROCESS, str(tmp_path / "meet")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split("\n")[0] == "[0.0, 2.0, 4.0] [2.0, 20.0, 200.0]"
