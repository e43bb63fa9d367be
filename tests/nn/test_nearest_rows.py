"""Nearest rows: against a loop, in blocks, and where there are too few."""

import pytest
import torch
from torch import Tensor

from viewgap.nn import neighbours as module
from viewgap.nn.linear import equal_blocks
from viewgap.nn.neighbours import nearest_rows


def normal(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def naive(x: Tensor, table: Tensor, count: int, own: Tensor | None = None) -> list[list[int]]:
    found = []
    for i in range(len(x)):
        others = [j for j in range(len(table)) if own is None or j != own[i]]
        nearest = sorted(others, key=lambda j: (float((x[i] - table[j]).norm()), j))[:count]
        found.append(sorted(nearest + [-1] * (count - len(nearest))))
    return found


@pytest.mark.parametrize("block_bytes", [1, 200, 1 << 20])
def test_nearest_rows(block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", block_bytes)
    x, table = normal(11, 3, seed=0), 2.0 + normal(7, 3, seed=1)
    assert nearest_rows(x, table, 3).tolist() == naive(x, table, 3)
    with equal_blocks(4):
        assert nearest_rows(x, table, 3).tolist() == naive(x, table, 3)


@pytest.mark.parametrize("n", [0, 1, 2, 6])
def test_no_row_is_its_own_neighbour(n: int) -> None:
    table, own = normal(n, 3, seed=2), torch.arange(n)
    found = nearest_rows(table, table, 4, own).sort(dim=1).values
    assert found.tolist() == naive(table, table, 4, own)


def test_the_first_of_equal_rows_are_taken() -> None:
    table = torch.zeros(50, 2).double()
    table[[3, 9]] = 1.0
    assert nearest_rows(torch.tensor([[2.0, 2.0]]).double(), table, 4).tolist() == [[0, 1, 3, 9]]


def test_a_table_without_rows_has_no_neighbours() -> None:
    assert nearest_rows(normal(2, 3, seed=0), torch.zeros(0, 3).double(), 2).tolist() == [
        [-1, -1],
        [-1, -1],
    ]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of rows, a block of distances has no more than the bytes allowed."""
    largest = 0

    def topk(values: Tensor, *args: object, **kwargs: object) -> object:
        nonlocal largest
        largest = max(largest, values.numel() * values.element_size())
        return torch.topk(values, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(Tensor, "topk", topk)
    table = normal(1000, 2, seed=0)
    nearest_rows(table, table, 5)
    assert 0 < largest <= 1 << 16
