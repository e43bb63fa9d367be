"""What a GPU records and replays: on the CPU every call goes through to the function itself."""

import numpy as np
import pytest
import torch

from viewgap.training.batches.epoch_index import Capacity, EpochIndex
from viewgap.training.batches.index import BatchIndex, Stacked
from viewgap.training.batches.sampled import Layout, sample_batches
from viewgap.training.steps.replay import EpochIndexOnDevice, Replay

CPU = torch.device("cpu")


@pytest.mark.parametrize("plain_calls", [0, 1, 3])
def test_on_the_cpu_every_call_is_a_call(plain_calls: int) -> None:
    called: list[int] = []

    def work() -> int:
        called.append(len(called))
        return called[-1]

    replay = Replay(work, CPU, plain_calls=plain_calls)
    for number in range(6):
        assert replay.is_recorded == (number >= plain_calls)
        assert replay() == number
    assert called == list(range(6))


def test_what_the_function_raises_comes_out() -> None:
    def broken() -> None:
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        Replay(broken, CPU)()


def make_epoch(capacity: Capacity, seed: int, layout: Layout) -> EpochIndex:
    rng = np.random.default_rng(seed)
    observed = rng.random((30, 3)) < 0.5
    order = torch.from_numpy(rng.permutation(30))
    sampled = sample_batches(list(order.split(12)), observed, Layout(), None)
    epoch = EpochIndex(sampled, [0, 0, 0], layout, capacity)
    epoch.arrays.update_factors = Stacked(rng.random((epoch.n_batches, 3)))
    return epoch


def tensors(index: BatchIndex[torch.Tensor]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    index.map(found.append)
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rows", ["dense", "packed"])
@pytest.mark.parametrize("norm_rows", ["observed", "all"])
def test_an_epoch_on_the_device_gives_its_batches_in_order(
    rows: str, norm_rows: str, dtype: torch.dtype
) -> None:
    layout, capacity = Layout(rows, norm_rows, "cross"), Capacity([16] * 3, [64] * 3)
    epochs = [make_epoch(capacity, seed, layout) for seed in (0, 1)]
    assert epochs[0].n_batches == 3  # the last batch is shorter
    on_device = EpochIndexOnDevice(epochs[0], CPU, dtype)
    for number, epoch in enumerate([epochs[0], epochs[1], epochs[0]]):
        if number:
            on_device.load(epoch)
        for t in range(epoch.n_batches):
            pairs = zip(tensors(on_device.next_batch()), tensors(epoch.batch(t)), strict=True)
            for found, expected in pairs:
                if expected.dtype == torch.long:
                    assert torch.equal(found, expected)
                else:
                    assert found.dtype == dtype
                    torch.testing.assert_close(found, expected.to(dtype))


def test_an_epoch_can_be_loaded_again_before_its_end() -> None:
    epoch = make_epoch(Capacity(), 0, Layout("packed"))
    on_device = EpochIndexOnDevice(epoch, CPU, torch.float32)
    first = on_device.next_batch().rows.clone()
    on_device.next_batch()
    on_device.load(epoch)
    assert torch.equal(on_device.next_batch().rows, first)


def test_what_pairs_have_in_common_is_kept_once() -> None:
    epoch = make_epoch(Capacity(), 0, Layout("packed", "all", "cross"))
    pairs = EpochIndexOnDevice(epoch, CPU, torch.float32).next_batch().pairs
    assert len({id(pair.source) for pair in pairs}) == 1
    assert len({id(pair.weight) for pair in pairs}) == 3
