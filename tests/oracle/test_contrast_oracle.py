"""The losses of the auto-encoder methods against loops written from the formulas, in float64."""

import math

import pytest
import torch
from torch import Tensor

from small_batches import draw
from viewgap.nn import contrast
from viewgap.nn.losses import bce_over_all, dependent_bce, quality_loss

M, B, N, F, C = 3, 7, 9, 5, 4


def codes(rows: int = B, seed: int = 0) -> Tensor:
    return (draw(M, rows, F, seed=seed) - 0.5).requires_grad_()


def observed(rows: int = B, seed: int = 1) -> Tensor:
    """Some samples with all views, one with one, one with none, as what fills a batch up."""
    seen = draw(rows, M, seed=seed) > 0.4
    seen[0], seen[1], seen[2] = True, torch.tensor([True, False, False]), False
    return seen


LABELS = (draw(B, C, seed=2) > 0.5).double()
MASK = (draw(B, C, seed=3) > 0.3).double()


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


def check_gradient(function, *inputs: Tensor) -> None:
    assert torch.autograd.gradcheck(function, inputs, eps=1e-6, atol=1e-5)


def test_unit_rows_have_length_one_and_a_gradient_at_zero() -> None:
    x = codes()
    torch.testing.assert_close(contrast.unit_rows(x).norm(dim=-1), torch.ones(M, B).double())
    nothing = torch.zeros(2, F, dtype=torch.float64, requires_grad=True)
    contrast.unit_rows(nothing).sum().backward()
    assert torch.isfinite(nothing.grad).all()


# ---------------------------------------------------------------------- DICNet


def naive_instance_contrast(z: Tensor, seen: Tensor, temperature: float) -> float:
    total = 0.0
    for u in range(M):
        for v in range(u + 1, M):
            both = [i for i in range(len(seen)) if seen[i, u] and seen[i, v]]
            stack = [z[u, i] for i in both] + [z[v, i] for i in both]
            n = len(both)
            loss = 0.0
            for a in range(2 * n):
                logits = [
                    0.0 if a == b else cosine(stack[a], stack[b]) / temperature
                    for b in range(2 * n)
                ]
                loss += math.log(sum(map(math.exp, logits))) - logits[(a + n) % (2 * n)]
            total += loss / (2 * n) if n else 0.0
    return total


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_instance_contrast(temperature: float) -> None:
    z, seen = codes(), observed()
    found = contrast.instance_contrast(z, seen, temperature)
    expected = naive_instance_contrast(z.detach(), seen, temperature)
    assert float(found) == pytest.approx(expected, rel=1e-7)
    check_gradient(lambda x: contrast.instance_contrast(x, seen, temperature), z)


def test_instance_contrast_without_pairs_is_zero_with_a_finite_gradient() -> None:
    z, seen = codes(), torch.zeros(B, M, dtype=torch.bool)
    seen[:, 0] = True
    found = contrast.instance_contrast(z, seen, 0.5)
    found.backward()
    assert float(found.detach()) == 0.0
    assert torch.equal(z.grad, torch.zeros_like(z))


# ---------------------------------------------------------------------- MTD


def naive_channel_contrast(shared: Tensor, private: Tensor, seen: Tensor) -> float:
    total = 0.0
    for i in range(len(seen)):
        views = [v for v in range(M) if seen[i, v]]
        if len(views) < 2:
            continue
        vectors = [("s", shared[v, i]) for v in views] + [("o", private[v, i]) for v in views]
        positive, negative = [], []
        for a, (kind_a, x) in enumerate(vectors):
            for b, (kind_b, y) in enumerate(vectors):
                if a != b:
                    alike = kind_a == kind_b == "s"
                    (positive if alike else negative).append(cosine(x, y))
        overlap = sum(c * c for c in negative) / len(negative)
        agreement = sum((c + 1 + 1e-6) / 2 for c in positive) / len(positive)
        total += 0.5 * overlap / agreement
    return total


def test_channel_contrast() -> None:
    shared, private, seen = codes(seed=0), codes(seed=5), observed()
    found = contrast.channel_contrast(shared, private, seen)
    expected = naive_channel_contrast(shared.detach(), private.detach(), seen)
    assert float(found) == pytest.approx(expected, rel=1e-6)
    check_gradient(lambda s, o: contrast.channel_contrast(s, o, seen), shared, private)


def test_graph_smoothness() -> None:
    z = codes()[0].detach().requires_grad_()
    unit = [row / math.sqrt(float(row @ row)) for row in z.detach()]
    expected = 0.0
    for i in range(B):
        for j in range(B):
            a = float(sum(LABELS[i] * MASK[i] * LABELS[j] * MASK[j]))
            g = float(sum(MASK[i] * MASK[j]))
            weight = a * g / (a * g + 100) if i != j else 0.0
            expected += 0.5 * weight * float((unit[i] - unit[j]).square().sum())
    count = torch.tensor(float(B))
    found = contrast.graph_smoothness(z, LABELS, MASK, count)
    assert float(found) == pytest.approx(expected / B**2, rel=1e-6)
    check_gradient(lambda x: contrast.graph_smoothness(x, LABELS, MASK, count), z)


# ---------------------------------------------------------------------- RANK


def test_view_agreement() -> None:
    z, seen = codes(), observed()
    expected = 0.0
    for u in range(M):
        for v in range(u + 1, M):
            gaps = [
                float((z[u, i] / z[u, i].norm() - z[v, i] / z[v, i].norm()).square().sum())
                for i in range(B)
                if seen[i, u] and seen[i, v]
            ]
            expected += sum(gaps) / (F * len(gaps) + 1e-10)
    assert float(contrast.view_agreement(z, seen)) == pytest.approx(expected, rel=1e-6)
    check_gradient(lambda x: contrast.view_agreement(x, seen), z)


def test_label_similarity() -> None:
    others, other_mask = (draw(N, C, seed=7) > 0.5).double(), (draw(N, C, seed=8) > 0.3).double()
    found = contrast.label_similarity(LABELS * MASK, MASK, others * other_mask, other_mask)
    for i in range(B):
        for j in range(N):
            shared = sum(
                LABELS[i, k] * MASK[i, k] * others[j, k] * other_mask[j, k] for k in range(C)
            )
            joint = sum(MASK[i, k] * other_mask[j, k] for k in range(C))
            assert float(found[i, j]) == pytest.approx(float(shared / (joint + 1e-9)))


def test_label_guided_contrast() -> None:
    z, bank = codes(), codes(N, seed=6).detach()
    seen, there = observed(), observed(N, seed=9)
    target, pairs = draw(B, N, seed=4), draw(B, N, seed=5) > 0.2
    total = 0.0
    for v in range(M):
        losses = []
        for i in range(B):
            for j in range(N):
                if seen[i, v] and there[j, v] and pairs[i, j]:
                    p = min((1 + cosine(z[v, i].detach(), bank[v, j])) / 2, 1.0)
                    t = float(target[i, j])
                    losses.append(-t * math.log(p + 1e-5) - (1 - t) * math.log(1 - p + 1e-5))
        total += sum(losses) / len(losses)
    found = contrast.label_guided_contrast(z, bank, seen, there, target, pairs)
    assert float(found) == pytest.approx(0.5 * total / M, rel=1e-6)
    check_gradient(lambda x: contrast.label_guided_contrast(x, bank, seen, there, target, pairs), z)


def naive_dependent_bce(p: Tensor, depends: Tensor) -> float:
    total = 0.0
    for i in range(B):
        for j in range(C):
            present = absent = 0.0
            for k in range(C):
                q = min(max(float(p[i, k]), 1e-10), 0.9)
                present += float(depends[j, k] * MASK[i, k]) * math.log(q)
                absent += float(depends[k, j] * MASK[i, k]) * math.log(1 - q)
            y = float(LABELS[i, j])
            total += float(MASK[i, j]) * abs(y * present + (1 - y) * absent)
    return total / (B * C)


def test_dependent_bce() -> None:
    p = (0.1 + 0.85 * draw(B, C, seed=6)).requires_grad_()  # some above the limit of 0.9
    depends = draw(C, C, seed=7).fill_diagonal_(1.0)
    count = torch.tensor(float(B))
    found = dependent_bce(p, LABELS, MASK, depends, count)
    assert float(found) == pytest.approx(naive_dependent_bce(p.detach(), depends), rel=1e-9)
    check_gradient(lambda x: dependent_bce(x, LABELS, MASK, depends, count), p)


def test_bce_over_all_is_the_independent_case() -> None:
    p = (0.1 + 0.7 * draw(B, C, seed=6)).requires_grad_()
    count = torch.tensor(float(B))
    found = bce_over_all(p, LABELS, MASK, count)
    expected = sum(
        -math.log(float(p[i, j]) if LABELS[i, j] else 1 - float(p[i, j]))
        for i in range(B)
        for j in range(C)
        if MASK[i, j]
    )
    assert float(found) == pytest.approx(expected / (B * C), rel=1e-8)
    same = dependent_bce(p, LABELS, MASK, torch.eye(C).double(), count)
    assert float(found) == pytest.approx(float(same), rel=1e-8)
    check_gradient(lambda x: bce_over_all(x, LABELS, MASK, count), p)


def test_quality_loss() -> None:
    quality = torch.softmax(draw(B, M, seed=1), dim=1).requires_grad_()
    answers, seen = 0.05 + 0.9 * draw(M, B, C, seed=2), observed()
    seen[2] = torch.tensor([False, True, True])
    mask = MASK.clone()
    mask[4] = 0.0  # nothing known of this sample: its views are equally good
    total = 0.0
    for i in range(B):
        views = [v for v in range(M) if seen[i, v]]
        errors = []
        for v in views:
            known = [j for j in range(C) if mask[i, j]]
            cells = [
                -math.log((p if LABELS[i, j] else 1 - p) + 1e-10)
                for j in known
                for p in [float(answers[v, i, j])]
            ]
            errors.append(sum(cells) / max(len(known), 1))
        weights = [math.exp(-e) for e in errors]
        for v, w in zip(views, weights, strict=True):
            total -= w / sum(weights) * math.log(float(quality[i, v]) + 1e-10)
    count = torch.tensor(float(B))
    found = quality_loss(quality, answers, LABELS, mask, seen, count)
    assert float(found) == pytest.approx(total / B, rel=1e-8)
    check_gradient(lambda s: quality_loss(s, answers, LABELS, mask, seen, count), quality)
