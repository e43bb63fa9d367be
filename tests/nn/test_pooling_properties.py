"""Log-odds pooling: order of views, of samples and of labels, extreme answers, absent views."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from viewgap.nn.pooling import LogOddsPooling

Case = tuple[LogOddsPooling, Tensor, Tensor]


def draw(seed: int) -> Case:
    generator = torch.Generator().manual_seed(seed)
    views, rows, labels = (int(n) for n in torch.randint(1, 6, (3,), generator=generator))
    pooled = LogOddsPooling(views, labels).double()
    pooled.weight.copy_(torch.rand(views, generator=generator) + 0.2)
    pooled.prior.copy_(torch.randn(labels, generator=generator))
    pooled.shift.copy_(torch.randn(labels, generator=generator))
    pooled.slope.fill_(1.2)
    pooled.power.fill_(0.7)
    predictions = torch.rand(views, rows, labels, generator=generator).double()
    extreme = torch.rand(predictions.shape, generator=generator) < 0.2
    predictions = torch.where(extreme, predictions.round(), predictions)  # exactly 0 and 1, too
    return pooled, predictions, torch.rand(rows, views, generator=generator) < 0.6


@given(st.integers(0, 2**16))
def test_answers_are_probabilities_and_absent_views_do_not_count(seed: int) -> None:
    pooled, predictions, observed = draw(seed)
    found = pooled(predictions, observed)
    assert ((found >= 0) & (found <= 1)).all()
    spoiled = torch.where(observed.T.unsqueeze(-1), predictions, torch.nan)
    assert torch.equal(pooled(spoiled, observed), found)


@given(st.integers(0, 2**16))
def test_another_order_gives_the_same_in_that_order(seed: int) -> None:
    pooled, predictions, observed = draw(seed)
    found = pooled(predictions, observed)
    views, rows, labels = (torch.randperm(n) for n in predictions.shape)
    torch.testing.assert_close(pooled(predictions[:, rows], observed[rows]), found[rows])
    other = LogOddsPooling(len(views), len(labels)).double()
    other.load_state_dict(pooled.state_dict())
    other.weight.copy_(pooled.weight[views])
    for own, kept in ((other.prior, pooled.prior), (other.shift, pooled.shift)):
        own.copy_(kept[labels])
    moved = other(predictions[views][:, :, labels], observed[:, views])
    torch.testing.assert_close(moved, found[:, labels])


@given(st.integers(0, 2**16), st.floats(0.5, 0.99))
def test_a_surer_view_never_makes_a_label_less_probable(seed: int, towards: float) -> None:
    pooled, predictions, observed = draw(seed)
    raised = predictions.clone()
    raised[0] = raised[0] + towards * (1 - raised[0])
    assert (pooled(raised, observed) >= pooled(predictions, observed) - 1e-12).all()
