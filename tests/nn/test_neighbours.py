"""Nearest neighbours and views filled in from them, against loops over single rows."""

import math

import pytest
import torch
from torch import Tensor

from small_batches import draw, normal
from viewgap.nn.neighbours import fill_from_neighbours, most_similar

M, B, N, F = 3, 6, 11, 4


@pytest.mark.parametrize("block", [2, 5, 100])
@pytest.mark.parametrize("k", [1, 3, 20, 10**12])
def test_nearest_is_what_sorting_finds(block: int, k: int) -> None:
    queries, table = normal(B, F), normal(N, F, seed=1)
    allowed = draw(2, N, seed=2) > 0.4
    similar, rows = most_similar(queries, table, allowed, k, block)
    assert similar.shape == rows.shape == (2, B, min(k, N))
    for s in range(2):
        for i in range(B):
            having = [(float(queries[i] @ table[j]), j) for j in range(N) if allowed[s, j]]
            wanted = sorted(having, reverse=True)[:k]
            found = list(zip(similar[s, i].tolist(), rows[s, i].tolist(), strict=True))
            assert [j for _, j in found[: len(wanted)]] == [j for _, j in wanted]
            assert [v for v, _ in found[: len(wanted)]] == pytest.approx([v for v, _ in wanted])
            assert all(value == -1e9 for value, _ in found[len(wanted) :])


def test_an_empty_table_has_no_neighbours() -> None:
    similar, _ = most_similar(normal(B, F), normal(0, F), torch.ones(1, 0, dtype=torch.bool), 2)
    assert similar.shape == (1, B, 0)


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b) / math.sqrt(float(a @ a + 1e-8) * float(b @ b + 1e-8))


def naive_fill(
    codes: Tensor, seen: Tensor, others: Tensor, others_seen: Tensor, i: int, v: int, k: int
) -> tuple[list[float], float]:
    """A missing view of one sample, and the trust in it."""
    pool = []
    for u in range(M):
        if seen[i, u]:
            both = [j for j in range(N) if others_seen[j, u] and others_seen[j, v]]
            by_nearness = [(cosine(codes[u, i], others[u, j]), j) for j in both]
            pool += sorted(by_nearness, reverse=True)[:k]
    total = sum(math.exp(c / 0.2) for c, _ in pool)
    shares = [(math.exp(c / 0.2) / total, c, j) for c, j in pool]
    filled = [sum(a * float(others[v, j, f]) for a, _, j in shares) for f in range(F)]
    return filled, min(1.0, max(0.0, sum(a * c for a, c, _ in shares)))


@pytest.mark.parametrize("k", [1, 2, 50])
def test_fill_from_neighbours(k: int) -> None:
    codes, others = normal(M, B, F), normal(M, N, F, seed=1)
    seen, others_seen = draw(B, M, seed=2) > 0.5, draw(N, M, seed=3) > 0.4
    seen[0], seen[1] = True, False  # everything there; nothing, as what fills a batch up
    filled, trust = fill_from_neighbours(codes, seen, others, others_seen, k, 0.2)
    for i in range(B):
        for v in range(M):
            if seen[i, v]:
                expected, wanted = codes[v, i].tolist(), 1.0
            else:
                expected, wanted = naive_fill(codes, seen, others, others_seen, i, v, k)
            assert filled[v, i].tolist() == pytest.approx(expected, rel=1e-7, abs=1e-9)
            assert float(trust[i, v]) == pytest.approx(wanted, rel=1e-7, abs=1e-9)


def test_gradient_of_filled_views() -> None:
    """Of the codes that are compared and of those that are copied."""
    seen = torch.tensor([[True, True, False], [True, False, True], [False, True, True]])
    codes = normal(M, 3, F).requires_grad_()

    def both(values: Tensor) -> Tensor:
        return torch.cat(
            [part.flatten() for part in fill_from_neighbours(*[values, seen] * 2, 2, 0.5)]
        )

    assert torch.autograd.gradcheck(both, (codes,))
    nobody = torch.zeros_like(seen)
    filled, trust = fill_from_neighbours(codes, seen, codes, nobody, 2, 0.5)
    assert torch.equal(trust, seen.double())
    assert not filled[~seen.T].any()


def test_a_missing_code_is_never_read() -> None:
    codes, others = normal(M, B, F), normal(M, N, F, seed=1)
    seen, others_seen = draw(B, M, seed=2) > 0.5, draw(N, M, seed=3) > 0.4
    found = fill_from_neighbours(codes, seen, others, others_seen, 3, 0.2)
    codes[~seen.T] = 1e3
    others[~others_seen.T] = -1e3
    again = fill_from_neighbours(codes, seen, others, others_seen, 3, 0.2)
    torch.testing.assert_close(again, found, rtol=1e-12, atol=1e-12)
