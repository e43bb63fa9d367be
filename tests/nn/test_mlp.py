"""Perceptrons and dropout follow their generators and nothing else."""

import torch

from small_batches import normal as rows
from small_batches import seeded
from viewgap.nn.dropout import Dropout
from viewgap.nn.linear import Linear
from viewgap.nn.mlp import MLP, Trunk
from viewgap.nn.reduce import LOCAL


def test_dropout_follows_its_generator_and_spares_the_global_one() -> None:
    layer, x = Dropout(0.5), torch.ones(1000)
    before = torch.get_rng_state()
    outs = []
    for _ in range(2):
        layer.generator = torch.Generator().manual_seed(3)
        outs.append(layer(x))
    assert torch.equal(outs[0], outs[1])
    assert torch.equal(torch.get_rng_state(), before)
    assert set(outs[0].unique().tolist()) == {0.0, 2.0}
    assert torch.equal(layer.eval()(x), x)


def test_mlp_is_fixed_by_its_generator() -> None:
    made = [MLP(4, [8, 6], 3, 0.0, torch.Generator().manual_seed(1)) for _ in range(2)]
    for a, b in zip(made[0].parameters(), made[1].parameters(), strict=True):
        assert torch.equal(a, b)
    assert made[0](torch.zeros(5, 4)).shape == (5, 3)
    assert made[0].norms[0].reducer is LOCAL


def test_an_mlp_is_its_hidden_part_and_its_last_layer() -> None:
    mlp = MLP(4, [8, 6], 3, 0.0, torch.Generator().manual_seed(1)).double().eval()
    x = rows(5, 4)
    assert isinstance(mlp.output, Linear)
    assert torch.equal(mlp(x), mlp.output(mlp.hidden(x)))


def test_trunk_is_the_hidden_part_of_a_perceptron() -> None:
    trunk, mlp, x = Trunk(4, (6, 5), 0.0, seeded()), MLP(4, (6, 5), 3, 0.0, seeded()), rows(7, 4)
    torch.testing.assert_close(trunk.double()(x), mlp.double().hidden(x))
    assert set(trunk.state_dict()) == {k for k in mlp.state_dict() if not k.startswith("output")}
