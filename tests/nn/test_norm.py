"""RowNorm against torch's BatchNorm1d: rows that count, groups of rows, views without rows."""

import pytest
import torch
from torch import nn

from small_batches import normal as rows
from viewgap.nn.norm import RowNorm, SetNorm
from viewgap.nn.reduce import Reducer


def reference_norm(features: int) -> nn.BatchNorm1d:
    return nn.BatchNorm1d(features, dtype=torch.float64)


def make_norm(features: int) -> RowNorm:
    return RowNorm(features).double()


def assert_same_running(ours: RowNorm, theirs: nn.BatchNorm1d) -> None:
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


def test_all_rows_equal_torch_batchnorm() -> None:
    ours, theirs, x = make_norm(5), reference_norm(5), rows(9, 5)
    for _ in range(3):
        torch.testing.assert_close(ours(x), theirs(x))
    assert_same_running(ours, theirs)


def test_weighted_rows_equal_batchnorm_of_those_rows() -> None:
    ours, theirs, x = make_norm(5), reference_norm(5), rows(9, 5)
    counted = torch.tensor([1, 0, 1, 1, 0, 1, 0, 1, 1], dtype=torch.float64)
    found = ours(x, counted)[counted > 0]
    torch.testing.assert_close(found, theirs(x[counted > 0]))
    assert_same_running(ours, theirs)


def test_groups_equal_one_call_per_group_in_order() -> None:
    ours, theirs, x = make_norm(4), reference_norm(4), rows(3, 7, 4)
    expected = torch.stack([theirs(group) for group in x])
    torch.testing.assert_close(ours(x), expected)
    assert_same_running(ours, theirs)


@pytest.mark.parametrize("shape", [(9, 5), (3, 9, 5)])
def test_a_row_of_weight_k_counts_as_k_rows(shape: tuple[int, ...]) -> None:
    """Rows that are all alike may be folded into one: result, gradient, running statistics."""
    x = rows(*shape).requires_grad_()
    weight = torch.ones(shape[:-1], dtype=torch.float64)
    weight[..., -1] = 4.0
    written_out = torch.cat([x, *[x[..., -1:, :]] * 3], dim=-2)
    ours, theirs = make_norm(5), make_norm(5)
    found, expected = ours(x, weight), theirs(written_out)
    torch.testing.assert_close(found, expected[..., : shape[-2], :])
    upstream = rows(*shape, seed=1)
    (got,) = torch.autograd.grad((found * upstream).sum(), x, retain_graph=True)
    (want,) = torch.autograd.grad((expected[..., : shape[-2], :] * upstream).sum(), x)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


def test_weighted_groups_equal_one_call_per_group_in_order() -> None:
    ours, one_by_one, x = make_norm(4), make_norm(4), rows(3, 7, 4)
    weight = (rows(3, 7, seed=1) > -0.5).double()
    weight[1] = 0.0  # a group in which nobody counts moves nothing
    expected = [one_by_one(group, w) for group, w in zip(x, weight, strict=True)]
    found = ours(x, weight)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[2], expected[2])
    assert torch.isfinite(found).all()
    torch.testing.assert_close(ours.running_mean, one_by_one.running_mean)
    torch.testing.assert_close(ours.running_var, one_by_one.running_var)


def test_fused_kernel_equals_general_path() -> None:
    class Other(Reducer):
        """Not LOCAL, so that the general path is taken."""

    plain, general, x = make_norm(6), make_norm(6), rows(8, 6)
    general.reducer = Other()
    assert plain._is_plain(x, None)
    assert not general._is_plain(x, None)
    torch.testing.assert_close(plain(x), general(x))
    torch.testing.assert_close(plain.running_var, general.running_var)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_rows_leave_running_statistics_and_stay_finite(count: int) -> None:
    norm, x = make_norm(3), rows(4, 3).requires_grad_()
    weight = torch.zeros(4, dtype=torch.float64)
    weight[:count] = 1
    before = norm.running_mean.clone(), norm.running_var.clone()
    out = norm(x, weight)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(x.grad).all()
    assert torch.equal(norm.running_mean, before[0])
    assert torch.equal(norm.running_var, before[1])


def test_gradient_of_weighted_norm() -> None:
    norm = make_norm(3)
    weight = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    x = rows(5, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: norm(t, weight) * weight[:, None], (x,))


def test_a_layer_may_be_called_with_many_rows_and_then_with_one() -> None:
    """Both ways of computing within one step: the first one's gradient is still there."""
    norm, many, one = make_norm(3), rows(5, 3).requires_grad_(), rows(1, 3, seed=1)
    (norm(many).square().sum() + norm(one).sum()).backward()
    assert torch.isfinite(many.grad).all()


@pytest.mark.parametrize("count", [1, 5])
def test_set_norm_is_the_same_in_evaluation(count: int) -> None:
    norm, x = SetNorm(3).double(), rows(count, 3)
    expected = norm(x)
    before = [buffer.clone() for buffer in norm.buffers()]
    torch.testing.assert_close(norm.eval()(x), expected)
    for old, buffer in zip(before, norm.buffers(), strict=True):
        assert torch.equal(old, buffer)
