"""Weights in one piece of memory: the network behaves as before, and stands alone afterwards."""

import copy
import pickle

import pytest
import torch
from torch import nn

from viewgap.nn.mlp import MLP
from viewgap.nn.norm import RowNorm
from viewgap.nn.reduce import LOCAL
from viewgap.training.flat_weights import FlatWeights


class Net(nn.Module):
    """Weights, statistics, a whole number and a flag, in sizes that no alignment divides."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.mlp = MLP(5, [7, 3], 2, 0.0, torch.Generator().manual_seed(seed))
        self.register_buffer("count", torch.tensor(seed))
        self.register_buffer("flags", torch.arange(3) < seed)
        self.register_buffer("scalar", torch.tensor(0.5 + seed))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mlp(x) * self.scalar


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def train(network: Net, steps: int) -> None:
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-2, fused=True)
    for t in range(steps):
        optimiser.zero_grad(set_to_none=True)
        network(draw(9, 5, seed=t)).square().mean().backward()
        optimiser.step()


def assert_same(one: nn.Module, other: nn.Module) -> None:
    for (name, a), b in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_a_flat_network_trains_the_same() -> None:
    plain, flat = Net(), Net()
    weights = FlatWeights(flat)
    for network in (plain, flat):
        train(network, 5)
    assert_same(plain, flat)
    assert torch.equal(plain.eval()(draw(4, 5)), flat.eval()(draw(4, 5)))
    everything = [*flat.parameters(), *(b for b in flat.buffers() if b.is_floating_point())]
    assert float(weights.values.double().sum()) == pytest.approx(
        sum(float(t.detach().double().sum()) for t in everything), abs=1e-9
    )


def test_loading_and_moving_weights_reach_the_piece() -> None:
    network, other = Net(), Net(1)
    weights = FlatWeights(network)
    network.load_state_dict(other.state_dict())
    assert_same(network, other)
    expected = FlatWeights(copy.deepcopy(other))
    assert torch.equal(weights.values, expected.values)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0, torch.tensor(0.25)])
def test_lerp_equals_that_of_every_tensor(share: float | torch.Tensor) -> None:
    mine, theirs = Net(0), Net(1)
    train(theirs, 2)
    expected = copy.deepcopy(mine).state_dict()
    for name, value in theirs.state_dict().items():
        if value.is_floating_point():
            expected[name].lerp_(value, share)
        else:
            expected[name].copy_(value)
    FlatWeights(mine).lerp(FlatWeights(theirs), share)
    for name, value in mine.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=1e-6, atol=1e-7, msg=name)


def test_lerp_of_buffers_leaves_the_parameters() -> None:
    mine, theirs = Net(0), Net(1)
    train(theirs, 2)
    expected = copy.deepcopy(mine)
    FlatWeights(expected).lerp(FlatWeights(copy.deepcopy(theirs)), 0.3)
    before = [p.detach().clone() for p in mine.parameters()]
    FlatWeights(mine).lerp_buffers(FlatWeights(theirs), 0.3)
    for old, new in zip(before, mine.parameters(), strict=True):
        assert torch.equal(old, new)
    for want, found in zip(expected.buffers(), mine.buffers(), strict=True):
        assert torch.equal(want, found)


def test_release_gives_every_tensor_memory_of_its_own() -> None:
    network = Net()
    size = len(pickle.dumps(network.state_dict()))
    before = copy.deepcopy(network)
    weights = FlatWeights(network)
    whole = weights.values.untyped_storage().data_ptr()
    assert all(p.untyped_storage().data_ptr() == whole for p in network.parameters())
    weights.release()
    for tensor in network.state_dict().values():
        assert tensor.untyped_storage().data_ptr() != whole
        assert tensor.untyped_storage().nbytes() == tensor.nbytes
    assert_same(network, before)
    assert len(pickle.dumps(network.state_dict())) == pytest.approx(size, rel=0.05)
    train(network, 1)  # what was released can still learn
    assert weights.values.untyped_storage().data_ptr() == whole


def test_parameters_stay_the_same_objects() -> None:
    """An optimiser made before or after knows them by identity."""
    network = Net()
    before = [id(p) for p in network.parameters()]
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-2)
    weights = FlatWeights(network)
    network(draw(6, 5)).sum().backward()
    optimiser.step()
    weights.release()
    assert [id(p) for p in network.parameters()] == before
    assert all(p in optimiser.state for p in network.parameters())


def test_a_twin_is_the_same_network_in_memory_of_its_own() -> None:
    network = Net(0)
    weights = FlatWeights(network)
    twin = weights.twin()
    for (name, a), b in zip(
        network.state_dict().items(), twin.network.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), name
    for a, b in zip(network.parameters(), twin.network.parameters(), strict=True):
        assert a is not b
        assert b.untyped_storage().data_ptr() == twin.values.untyped_storage().data_ptr()
    twin.values.zero_()
    assert all((p == 0).all() for p in twin.network.parameters())
    assert any((p != 0).any() for p in network.parameters())


def test_a_copied_network_keeps_its_reducer() -> None:
    """Fused kernels ask for the reducer of one process by identity."""
    assert copy.deepcopy(RowNorm(3)).reducer is LOCAL
