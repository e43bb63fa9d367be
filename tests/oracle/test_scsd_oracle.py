"""SCSD's fusion and losses against loops written from the equations, one number at a time."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from viewgap.methods._scsd_network import SCSDNetwork
from viewgap.methods._scsd_settings import PROFILES, SCSDSettings
from viewgap.nn.fusion import correlation, fusion_weights, label_correlation, view_quality
from viewgap.nn.losses import bce_cells, masked_bce, teacher_bce_rows
from viewgap.training.batches import Batch

B, C, DIMS = 9, 4, (5, 3, 6)
SMALL = SCSDSettings(hidden=(8, 6), embedding=8, codebook_size=11, fusion="label_correlation")


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def dense() -> Batch:
    observed = draw(B, 3, seed=1) > 0.4
    observed[:, 0] |= ~observed.any(dim=1)
    views = [torch.where(observed[:, [v]], draw(B, d, seed=2 + v), 0.0) for v, d in enumerate(DIMS)]
    mask = (draw(B, C, seed=8) > 0.3).double()
    labels = (draw(B, C, seed=9) > 0.6).double() * mask
    return Batch(views, None, observed, labels, mask)


@pytest.fixture
def packed(dense: Batch) -> Batch:
    positions = [torch.nonzero(column).squeeze(1) for column in dense.observed.T]
    views = [x[p] for x, p in zip(dense.views, positions, strict=True)]
    return Batch(views, positions, dense.observed, dense.labels, dense.label_mask)


def make(settings: SCSDSettings, batch: Batch) -> SCSDNetwork:
    target = label_correlation(batch.labels.float())
    return SCSDNetwork(DIMS, target, settings, torch.Generator().manual_seed(0)).double()


def naive_correlation(rows: list[list[float]], eps: float) -> list[list[float]]:
    c = len(rows[0])
    s = [[0.0] * c for _ in range(c)]
    for i in range(c):
        own = sum(r[i] * r[i] for r in rows)
        for j in range(c):
            if i != j:
                s[i][j] = sum(r[i] * r[j] for r in rows) / (own + eps)
    sym = [[(s[i][j] + s[j][i]) / 2 for j in range(c)] for i in range(c)]
    return [[value / (sum(row) + 1e-9) for value in row] for row in sym]


def naive_bce(p: float, y: float) -> float:
    return abs(y * math.log(p + 1e-5) + (1 - y) * math.log(1 - p + 1e-5))


def test_label_correlation(dense: Batch) -> None:
    expected = torch.tensor(naive_correlation(dense.labels.tolist(), 1e-10), dtype=torch.float64)
    torch.testing.assert_close(label_correlation(dense.labels), expected)


def test_label_without_positives_gives_zeros_not_nan() -> None:
    labels = draw(B, C).round()
    labels[:, 1] = 0
    found = label_correlation(labels)
    assert torch.isfinite(found).all()
    assert (found[1] == 0).all()
    assert (torch.diagonal(found) == 0).all()


def test_quality_and_weights(dense: Batch) -> None:
    target = label_correlation(dense.labels)
    predictions = [draw(B, C, seed=20 + v) for v in range(3)]
    kept = [p[dense.observed[:, v]] for v, p in enumerate(predictions)]
    quality = view_quality([p.T @ p for p in kept], torch.tensor([True, True, True]), target)
    expected_quality = []
    for rows in kept:
        own = naive_correlation(rows.tolist(), 1e-9)
        gap = sum((own[i][j] - float(target[i, j])) ** 2 for i in range(C) for j in range(C))
        expected_quality.append(-math.sqrt(gap))
    assert quality.tolist() == pytest.approx(expected_quality, abs=1e-12)
    weights = fusion_weights(quality, dense.observed, 0.3)
    for i in range(B):
        raw = [
            math.exp(q / 0.3) * float(o)
            for q, o in zip(expected_quality, dense.observed[i], strict=True)
        ]
        assert weights[i].tolist() == pytest.approx([r / sum(raw) for r in raw], abs=1e-12)


def test_absent_view_has_no_weight() -> None:
    gram = torch.eye(C, dtype=torch.float64)
    quality = view_quality([gram, gram], torch.tensor([True, False]), correlation(gram))
    assert quality.tolist() == [0.0, -1e9]
    nobody = fusion_weights(quality, torch.zeros(1, 2, dtype=torch.bool), 1.0)
    assert nobody.tolist() == [[0.0, 0.0]]


def test_masked_bce_and_teacher(dense: Batch) -> None:
    p, q = draw(B, C, seed=30), draw(B, C, seed=31)
    cells = [(i, j) for i in range(B) for j in range(C) if dense.label_mask[i, j]]
    total = sum(naive_bce(float(p[i, j]), float(dense.labels[i, j])) for i, j in cells)
    found = masked_bce(p, dense.labels, dense.label_mask)
    assert float(found) == pytest.approx(total / len(cells), abs=1e-12)
    for i in range(B):
        expected = -sum(
            float(q[i, j]) * math.log(p[i, j]) + (1 - float(q[i, j])) * math.log(1 - p[i, j])
            for j in range(C)
        )
        assert float(teacher_bce_rows(p, q)[i]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("teacher", [True, False])
def test_distillation(dense: Batch, teacher: bool) -> None:
    network = make(replace(SMALL, distill_weight=0.3, teacher=teacher), dense)
    predictions = [draw(B, C, seed=40 + v) for v in range(3)]
    fused = draw(B, C, seed=50)
    expected = 0.0
    for v in range(3):
        rows = [i for i in range(B) if dense.observed[i, v]]
        kl = sum(float(teacher_bce_rows(predictions[v], fused)[i]) for i in rows) / len(rows)
        known = [(i, j) for i in rows for j in range(C) if dense.label_mask[i, j]]
        supervised = sum(
            naive_bce(float(predictions[v][i, j]), float(dense.labels[i, j])) for i, j in known
        )
        expected += 0.3 * kl * teacher + 0.7 * supervised / len(known)
    found = network.distillation_loss(dense, predictions, fused)
    assert float(found) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("cross_view", [True, False])
def test_reconstruction(dense: Batch, cross_view: bool) -> None:
    """With frozen normalisation a decoder works row by row, so pairs can be walked singly."""
    network = make(replace(SMALL, cross_view=cross_view), dense).eval()
    codes = [draw(B, 8, seed=60 + v) for v in range(3)]
    expected = 0.0
    for i in range(B):
        have = [v for v in range(3) if dense.observed[i, v]]
        for v in have:
            for j in have if cross_view else [v]:
                decoded = network.decoders[j](codes[v][i : i + 1])[0].detach()
                error = sum(
                    (float(a) - float(b)) ** 2
                    for a, b in zip(decoded, dense.views[j][i], strict=True)
                )
                expected += error / DIMS[j] / len(have) / B
    assert float(network.reconstruction_loss(dense, codes, dense).detach()) == pytest.approx(
        expected, rel=1e-10
    )


def test_released_reconstruction_calls_every_decoder_once_per_source(dense: Batch) -> None:
    """norm_rows='all': six groups in one call equal six calls over all rows, zeros included."""
    settings = replace(PROFILES["paper"](C), hidden=(8, 6), embedding=8, codebook_size=11)
    one, many = make(settings, dense), make(settings, dense)
    codes = [draw(B, 8, seed=60 + v) for v in range(3)]
    zeroed = [torch.where(dense.observed[:, [v]], z, 0.0) for v, z in enumerate(codes)]
    expected = torch.zeros((), dtype=torch.float64)
    views_of = dense.observed.sum(1)
    for j in range(3):
        for v in range(3):
            error = (many.decoders[j](zeroed[v]) - dense.views[j]).square().mean(1)
            pair = dense.observed[:, v] & dense.observed[:, j]
            expected = expected + (error * pair / views_of).sum() / B
    torch.testing.assert_close(one.reconstruction_loss(dense, codes, dense), expected)
    for a, b in zip(one.decoders.buffers(), many.decoders.buffers(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("cross_view", [True, False])
@pytest.mark.parametrize("quantise", [True, False])
def test_dense_and_packed_agree(
    dense: Batch, packed: Batch, cross_view: bool, quantise: bool
) -> None:
    """Same terms, same gradients, same running statistics and codes over several steps."""
    settings = replace(SMALL, cross_view=cross_view, quantise=quantise)
    networks = [make(settings, dense), make(settings, dense)]
    for _ in range(3):
        terms = [n.loss_terms(b) for n, b in zip(networks, (dense, packed), strict=True)]
        for name in terms[0]:
            torch.testing.assert_close(terms[0][name], terms[1][name], rtol=1e-10, atol=1e-12)
        for network, term in zip(networks, terms, strict=True):
            network.zero_grad()
            sum(term.values()).backward()
        for a, b in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-8, atol=1e-10)
    for a, b in zip(networks[0].buffers(), networks[1].buffers(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("layout", ["dense", "packed"])
def test_view_absent_from_the_batch(layout: str, request: pytest.FixtureRequest) -> None:
    """F05: terms stay finite, the absent view's networks get no gradient and no statistics."""
    batch: Batch = request.getfixturevalue(layout)
    batch.observed[:, 1] = False
    batch.observed[:, 0] = True
    if layout == "packed":
        batch.positions = [torch.nonzero(column).squeeze(1) for column in batch.observed.T]
    batch.views = [
        draw(len(batch) if layout == "dense" else int(batch.observed[:, v].sum()), d, seed=v)
        for v, d in enumerate(DIMS)
    ]
    network = make(SMALL, batch)
    before = [b.clone() for b in network.encoders[1].buffers()]
    sum(network.loss_terms(batch).values()).backward()
    for parameter in network.parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all()
    for parameter in network.encoders[1].parameters():
        assert parameter.grad is None or (parameter.grad == 0).all()
    for a, b in zip(before, network.encoders[1].buffers(), strict=True):
        assert torch.equal(a, b)


def test_gradcheck_of_the_terms(dense: Batch) -> None:
    network = make(replace(SMALL, quantise=False), dense)
    p = [draw(B, C, seed=70 + v).clamp(0.05, 0.95).requires_grad_() for v in range(3)]

    def fused_bce(*predictions: Tensor) -> Tensor:
        quality = network.batch_quality(dense, predictions)
        return masked_bce(network.fuse(dense, predictions, quality), dense.labels, dense.label_mask)

    def distilled(*predictions: Tensor) -> Tensor:
        return network.distillation_loss(dense, list(predictions), draw(B, C, seed=77))

    assert torch.autograd.gradcheck(fused_bce, p)
    assert torch.autograd.gradcheck(distilled, p)
    assert torch.autograd.gradcheck(lambda t: bce_cells(t, dense.labels), (p[0],))
    z = [draw(B, 8, seed=80 + v).requires_grad_() for v in range(3)]
    assert torch.autograd.gradcheck(
        lambda *codes: network.reconstruction_loss(dense, list(codes), dense), z
    )


def test_switches_remove_their_terms(dense: Batch) -> None:
    full = {"classification", "distillation", "reconstruction", "quantisation"}
    assert set(make(SMALL, dense).loss_terms(dense)) == full
    for switch, term in [
        ("self_distillation", "distillation"),
        ("reconstruction", "reconstruction"),
        ("quantise", "quantisation"),
    ]:
        assert set(make(replace(SMALL, **{switch: False}), dense).loss_terms(dense)) == full - {
            term
        }
