"""Masked means are means of what the mask selects, whatever else there is."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from viewgap.errors import LostProcessesError
from viewgap.nn.codebook import SharedCodebook
from viewgap.nn.reduce import (
    LOCAL,
    ProcessReducer,
    Reducer,
    collective,
    mean_of_sums,
    set_reducer,
    weighted_mean,
)


class Twice(Reducer):
    """Two processes with the same rows."""

    def sum(self, value: Tensor) -> Tensor:
        return 2 * value


cases = st.tuples(st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**16))


def draw(case: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    rows, columns, seed = case
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, columns, generator=generator).double()
    return values, (torch.rand(rows, columns, generator=generator) < 0.6).double()


@given(cases)
def test_a_mask_selects(case: tuple[int, int, int]) -> None:
    values, mask = draw(case)
    chosen = values[mask.bool()]
    expected = chosen.mean() if len(chosen) else torch.zeros(()).double()
    torch.testing.assert_close(weighted_mean(values, mask), expected)
    spoiled = torch.where(mask.bool(), values, torch.full_like(values, 1e30))
    assert torch.equal(weighted_mean(spoiled, mask), weighted_mean(values, mask))


@given(cases)
def test_weights_are_those_of_a_loop(case: tuple[int, int, int]) -> None:
    values, mask = draw(case)
    weight = mask[:, :1] * (1.5 + torch.arange(len(mask)).double().unsqueeze(1))
    total = count = 0.0
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            total += float(weight[i, 0] * values[i, j])
            count += float(weight[i, 0])
    for eps in (0.0, 0.25):
        expected = total / (count + eps) if count > 0 else 0.0
        assert float(weighted_mean(values, weight, eps=eps)) == pytest.approx(expected, abs=1e-12)
    assert float(weighted_mean(values, weight, Twice())) == pytest.approx(
        total / count if count else 0.0, abs=1e-12
    )
    doubled = 2 * total / (2 * count + 0.25) if count else 0.0
    found = float(weighted_mean(values, weight, Twice(), eps=0.25))
    assert found == pytest.approx(doubled, abs=1e-12)


@given(cases)
def test_over_a_dimension_each_row_has_its_own_mean(case: tuple[int, int, int]) -> None:
    values, mask = draw(case)
    found = weighted_mean(values, mask, dim=(1,))
    assert found.shape == values.shape[:1]
    for row, own, chosen in zip(found, values, mask.bool(), strict=True):
        torch.testing.assert_close(row, weighted_mean(own, chosen.double()))


def test_without_any_weight_it_is_zero_with_gradient() -> None:
    values = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    found = weighted_mean(values, torch.zeros(3, 1, dtype=torch.float64))
    assert float(found.detach()) == 0.0
    (gradient,) = torch.autograd.grad(found, values)
    assert torch.equal(gradient, torch.zeros_like(values))


def test_weights_may_be_small() -> None:
    values, weight = torch.tensor([2.0, 6.0]), torch.tensor([0.1, 0.3])
    assert float(weighted_mean(values, weight)) == pytest.approx(5.0)


def test_gradient_is_the_share_of_the_weight() -> None:
    values = torch.randn(4, dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([1.0, 0.0, 2.0, 1.0], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(weighted_mean(values, weight), values)
    torch.testing.assert_close(gradient, weight / 4)


def test_one_process_is_the_identity_and_stays_one_in_copies() -> None:
    value = torch.ones(2)
    assert LOCAL.sum(value) is value
    assert copy.deepcopy(LOCAL) is LOCAL


def test_every_part_gets_the_reducer_and_nothing_else_changes() -> None:
    book = SharedCodebook(4, 2, torch.Generator().manual_seed(0))
    network = nn.Sequential(nn.Linear(2, 2), nn.ModuleList([book]))
    reducer = Twice()
    set_reducer(network, reducer)
    assert book.reducer is reducer
    assert not hasattr(network[0], "reducer")


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_sums_over_processes_pass_gradients(tmp_path: object) -> None:
    """One process in a group: the sum is its value, the gradient passes, nothing is shared."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        value = torch.arange(3.0, requires_grad=True)
        total = ProcessReducer().sum(value)
        assert torch.equal(total, value)
        assert total.data_ptr() != value.data_ptr()
        (gradient,) = torch.autograd.grad((total * torch.tensor([1.0, 2.0, 3.0])).sum(), value)
        assert gradient.tolist() == [1.0, 2.0, 3.0]
    finally:
        torch.distributed.destroy_process_group()


class OneOfThree(Reducer):
    """The other two processes have the same rows; `messages` counts what is sent."""

    count = 3

    def __init__(self, rank: int) -> None:
        self.rank, self.messages = rank, 0

    def sum(self, value: Tensor) -> Tensor:
        self.messages += 1
        return 3 * value


def test_several_sums_are_one_message() -> None:
    reducer, values = OneOfThree(1), (torch.tensor(2.0), torch.arange(6.0).reshape(2, 3))
    found = reducer.sum_together(*values)
    assert reducer.messages == 1
    for own, value in zip(found, values, strict=True):
        assert own.shape == value.shape
        assert torch.equal(own, 3 * value)
    assert [float(own) for own in LOCAL.sum_together(torch.tensor(2.0))] == [2.0]


@pytest.mark.parametrize("rank", range(3))
def test_gathered_values_lie_in_the_order_of_the_processes(rank: int) -> None:
    value = torch.arange(1.0, 5.0).reshape(2, 2)
    found = OneOfThree(rank).gather(value)
    assert found.shape == (3, 2, 2)
    assert torch.equal(found[rank], 3 * value)
    assert float(found.abs().sum()) == float(found[rank].abs().sum())
    assert torch.equal(LOCAL.gather(value), value.unsqueeze(0))


def test_a_mean_of_sums_adds_nothing_unless_asked() -> None:
    total, count = torch.tensor([6.0, 0.0]), torch.tensor([4.0, 0.0])
    assert mean_of_sums(total, count).tolist() == [1.5, 0.0]
    assert mean_of_sums(total, count, eps=2.0).tolist() == [1.0, 0.0]


def test_processes_that_lost_each_other_are_told_in_one_line() -> None:
    reason = "x" * 300 + "\nand a long story"
    with pytest.raises(LostProcessesError, match="lost each other") as told, collective():
        raise RuntimeError(f"  {reason}")
    assert f"({'x' * 200})" in str(told.value)
    with pytest.raises(LostProcessesError, match=r"^as it was$"), collective():
        raise LostProcessesError("as it was")  # told further inside
    with pytest.raises(KeyError), collective():
        raise KeyError("something else")
