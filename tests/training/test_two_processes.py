"""Every batch statistic can be made global: two processes with half a batch each see the whole."""

import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from viewgap.methods._scsd_network import SCSDNetwork
from viewgap.methods._scsd_settings import SCSDSettings
from viewgap.nn.fusion import label_correlation
from viewgap.nn.reduce import ProcessReducer, set_reducer
from viewgap.training.batches import Batch

DIMS = (5, 3)
SETTINGS = SCSDSettings(hidden=(8,), embedding=8, codebook_size=11)


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
    network.codebook.started.fill_(True)  # starting codes come from one process's rows
    return network


def work(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    network = make_network()
    set_reducer(network, ProcessReducer())
    terms = network.loss_terms(make_batch(slice(6 * rank, 6 * rank + 6)))
    found = {name: value.detach() for name, value in terms.items()}
    found |= {f"buffer {name}": value for name, value in network.named_buffers()}
    if rank == 0:
        from safetensors.torch import save_file

        save_file({k: v.clone() for k, v in found.items()}, f"{folder}/found.safetensors")
    dist.destroy_process_group()


def test_halves_on_two_processes_equal_the_whole(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    # A process of its own, since workers must be able to import the module that defines `work`.
    subprocess.run([sys.executable, __file__, str(tmp_path)], check=True, timeout=120)
    found = load_file(tmp_path / "found.safetensors")
    network = make_network()
    expected = network.loss_terms(make_batch(slice(0, 12)))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value.detach())
    for name, value in network.named_buffers():
        torch.testing.assert_close(found[f"buffer {name}"], value)


if __name__ == "__main__":
    mp.spawn(work, args=(sys.argv[1],), nprocs=2)
