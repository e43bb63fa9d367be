"""SCSD's fusion and losses against loops written from the equations, one number at a time."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import small_batches
from small_batches import (
    DIMS,
    FORMS,
    B,
    C,
    assert_finite,
    assert_forms_agree,
    draw,
    in_rows,
    make_source,
)
from viewgap.methods.scsd import network as scsd_network
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.methods.scsd.settings import PROFILES, SCSDSettings
from viewgap.nn import fusion
from viewgap.nn.fusion import correlation, fusion_weights, gram_quality, label_correlation
from viewgap.nn.losses import bce_entries, masked_bce, teacher_bce_rows
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.sampled import Layout
from viewgap.training.batches.source import BatchSource

SMALL = SCSDSettings(hidden=(8, 6), embedding=8, codebook_size=11, fusion="label_correlation")
RELEASED = replace(PROFILES["paper"](C), hidden=(8, 6), embedding=8, codebook_size=11)
PRINTED = replace(PROFILES["equations"](C), hidden=(8, 6), embedding=8, codebook_size=11)


def make_batch(
    form: str = "dense",
    settings: SCSDSettings = SMALL,
    source: BatchSource | None = None,
    rows: Tensor | None = None,
) -> Batch:
    """All rows (or these) as the network with these settings wants them, but in this form."""
    pairs = "cross" if settings.cross_view else "own"
    pairs = pairs if settings.reconstruction else "none"
    layout = Layout("dense", settings.norm_rows, pairs, settings.view_dropout)
    return small_batches.make_batch(form, source or make_source(), rows, layout)


@pytest.fixture
def dense() -> Batch:
    return make_batch()


def make(settings: SCSDSettings, batch: Batch) -> SCSDNetwork:
    network = SCSDNetwork(DIMS, C, settings, torch.Generator().manual_seed(0)).double()
    if settings.fusion != "mean":
        network.label_correlation.copy_(label_correlation(batch.labels.float()))
    return network


def reconstruction(network: SCSDNetwork, batch: Batch, codes: Tensor) -> Tensor:
    errors = [network.decoding_error(j, target, codes) for j, target in enumerate(batch.targets)]
    return torch.stack(errors).sum() / batch.n_samples


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


def naive_quality(rows: Tensor, target: Tensor) -> float:
    own = naive_correlation(rows.tolist(), 1e-9)
    return -math.sqrt(
        sum((own[i][j] - float(target[i, j])) ** 2 for i in range(C) for j in range(C))
    )


# ---------------------------------------------------------------------- fusion


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
    predictions = draw(3, B, C, seed=20) * dense.observed.T.unsqueeze(-1)
    present = torch.tensor([True, True, True])
    quality = fusion.view_quality(predictions, present, target)
    kept = [p[dense.observed[:, v]] for v, p in enumerate(predictions)]
    expected = [naive_quality(rows, target) for rows in kept]
    assert quality.tolist() == pytest.approx(expected, abs=1e-12)
    from_sums = gram_quality([p.T @ p for p in kept], present, target)
    assert from_sums.tolist() == pytest.approx(expected, abs=1e-12)
    weights = fusion_weights(quality, dense.observed, 0.3)
    for i in range(B):
        raw = [
            math.exp(q / 0.3) * float(o) for q, o in zip(expected, dense.observed[i], strict=True)
        ]
        assert weights[i].tolist() == pytest.approx([r / sum(raw) for r in raw], abs=1e-12)


def test_quality_view_by_view_equals_all_at_once(
    dense: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above many labels the matrices are made again for the gradient instead of being kept."""
    target, present = label_correlation(dense.labels), torch.tensor([True, True, False])
    results = []
    for many in (C, C - 1):
        monkeypatch.setattr(fusion, "_MANY_LABELS", many)
        predictions = draw(3, B, C, seed=20).requires_grad_()
        quality = fusion.view_quality(predictions, present, target)
        quality.sum().backward()
        results.append((quality.detach(), predictions.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_absent_view_has_no_weight() -> None:
    both = torch.eye(C, dtype=torch.float64).expand(2, C, C)
    target = correlation(both[0])
    present = torch.tensor([True, False])
    for quality in (
        fusion.view_quality(both, present, target),
        gram_quality(list(both), present, target),
    ):
        assert quality.tolist() == [0.0, -1e9]
        nobody = fusion_weights(quality, torch.zeros(1, 2, dtype=torch.bool), 1.0)
        assert nobody.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("settings", [SMALL, RELEASED], ids=["default", "released"])
def test_frozen_quality_is_that_of_all_rows(
    settings: SCSDSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Added up over batches of a few rows, and without anybody's rows twice."""
    monkeypatch.setattr(scsd_network, "_QUALITY_ROWS", 4)
    source = make_source()
    batch = make_batch("dense", settings, source)
    network = make(settings, batch).eval()
    network.freeze_quality(source)
    with torch.no_grad():
        predictions = network.predict_views_of(batch)
    expected = [
        naive_quality(rows[batch.observed[:, v]], network.label_correlation)
        for v, rows in enumerate(predictions)
    ]
    assert network.view_quality.tolist() == pytest.approx(expected, abs=1e-9)


# ---------------------------------------------------------------------- terms of the loss


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
    predictions, fused = draw(3, B, C, seed=40), draw(B, C, seed=50)
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


@pytest.mark.parametrize("form", FORMS)
def test_classification_of_every_cell(form: str) -> None:
    """P^v = σ(W z + b), and zero where the view is missing."""
    batch = make_batch(form)
    network, cells = make(SMALL, batch), draw(3, len(batch), 8, seed=60)
    with torch.no_grad():
        found = network.classify(batch, in_rows(batch, cells))
    for v in range(3):
        weight, bias = (p.tolist() for p in network.classifiers[v].parameters())
        for i in range(B):
            z = cells[v, i].tolist()
            score = [
                sum(a * b for a, b in zip(row, z, strict=True)) + b
                for row, b in zip(weight, bias, strict=True)
            ]
            seen = float(batch.observed[i, v])
            expected = [seen / (1 + math.exp(-s)) for s in score]
            assert found[v, i].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("cross_view", [True, False])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("settings", "view_dropout"),
    [(SMALL, 0.0), (SMALL, 0.5), (RELEASED, 0.0)],
    ids=["default", "hidden views", "released"],
)
def test_reconstruction(
    settings: SCSDSettings, view_dropout: float, form: str, cross_view: bool
) -> None:
    """With frozen normalisation a decoder works row by row, so pairs can be walked singly.

    A hidden view is not decoded from, but it is still to be reproduced.
    """
    settings = replace(settings, cross_view=cross_view, view_dropout=view_dropout)
    source = make_source()
    batch = make_batch(form, settings, source)
    network = make(settings, batch).eval()
    cells = draw(3, len(batch), 8, seed=60)
    expected = 0.0
    for i in range(B):
        have = [v for v in range(3) if source.observed[i, v]]
        shown = [v for v in range(3) if batch.observed[i, v]]
        for v in shown:
            for j in have if cross_view else [v]:
                decoded = network.decoders[j](cells[v, i : i + 1])[0].detach()
                truth = draw(B, DIMS[j], seed=2 + j)[i]
                error = sum((float(a) - float(b)) ** 2 for a, b in zip(decoded, truth, strict=True))
                expected += error / DIMS[j] / len(shown) / B
    found = reconstruction(network, batch, in_rows(batch, cells))
    assert float(found.detach()) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_released_reconstruction_calls_every_decoder_once_per_source(form: str) -> None:
    """norm_rows='all': six groups in one call equal six calls over all rows, zeros included."""
    batch, dense = make_batch(form, RELEASED), make_batch("dense", RELEASED)
    one, many = make(RELEASED, dense), make(RELEASED, dense)
    cells = draw(3, len(batch), 8, seed=60)
    zeroed = torch.where(dense.observed.T.unsqueeze(-1), cells[:, :B], 0.0)
    expected = torch.zeros((), dtype=torch.float64)
    views_of = dense.observed.sum(1)
    for j in range(3):
        for v in range(3):
            error = (many.decoders[j](zeroed[v]) - dense.views[j]).square().mean(1)
            pair = dense.observed[:, v] & dense.observed[:, j]
            expected = expected + (error * pair / views_of).sum() / B
    torch.testing.assert_close(reconstruction(one, batch, in_rows(batch, cells)), expected)
    for a, b in zip(one.decoders.buffers(), many.decoders.buffers(), strict=True):
        torch.testing.assert_close(a, b)


# ---------------------------------------------------------------------- forms of a batch


VARIANTS = {
    "default": SMALL,
    "own view": replace(SMALL, cross_view=False),
    "no codebook": replace(SMALL, quantise=False),
    "own view, no codebook": replace(SMALL, cross_view=False, quantise=False),
    "hidden views": replace(SMALL, view_dropout=0.5),
    "learned codes": replace(SMALL, codebook_learning="gradient"),
    "no reconstruction": replace(SMALL, reconstruction=False),
    # Missing rows enter the statistics: all of them, or folded into one row that counts for all.
    "released": RELEASED,
    "released, own view": replace(RELEASED, cross_view=False),
    "released, no codebook": replace(RELEASED, quantise=False),
    "as printed": PRINTED,
    "as printed, observed rows": replace(PRINTED, norm_rows="observed"),
}


@pytest.mark.parametrize("form", [form for form in FORMS if form != "dense"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("rows", [None, torch.tensor([7, 0, 4, 2])], ids=["all", "some"])
def test_forms_agree(variant: str, form: str, rows: Tensor | None) -> None:
    """Same terms, same gradients, same running statistics and codes over several steps."""
    settings = VARIANTS[variant]
    batches = [make_batch("dense", settings, None, rows), make_batch(form, settings, None, rows)]
    networks = [make(settings, batches[0]) for _ in batches]
    assert_forms_agree(networks, batches, steps=3, gradients=(1e-8, 1e-10))


@pytest.mark.parametrize("settings", [SMALL, RELEASED], ids=["default", "released"])
@pytest.mark.parametrize("form", FORMS)
def test_forms_predict_alike(settings: SCSDSettings, form: str) -> None:
    batches = [make_batch("dense", settings), make_batch(form, settings)]
    network = make(settings, batches[0]).eval()
    with torch.no_grad():
        found = [network.predict_batch(batch)[:B] for batch in batches]
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-12)


def test_the_network_asks_for_the_smallest_form_that_is_right() -> None:
    batch = make_batch()
    assert make(SMALL, batch).layout == Layout("packed", "observed", "cross", SMALL.view_dropout)
    released = replace(RELEASED, dropout=0.0, input_dropout=0.0)
    assert make(released, batch).layout.folded
    for switch in ("dropout", "input_dropout"):  # missing rows are no longer all alike
        unlike = make(replace(released, **{switch: 0.1}), batch).layout
        assert (unlike.rows, unlike.norm_rows, unlike.folded) == ("dense", "all", False)
    assert make(replace(SMALL, cross_view=False), batch).layout.pairs == "own"
    assert make(replace(SMALL, reconstruction=False), batch).layout.pairs == "none"


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_view_absent_from_the_batch(form: str, everywhere: bool) -> None:
    """Terms stay finite, the absent view's networks get no gradient and no statistics."""
    observed = draw(B, 3, seed=1) > 0.4
    observed[:, 0] = True
    observed[: B if everywhere else B - 2, 1] = False
    observed[B - 2 :, 1] = not everywhere
    batch = make_batch(form, SMALL, make_source(observed), torch.arange(B - 2))
    assert not batch.observed[:, 1].any()
    network = make(SMALL, batch)
    absent = [network.encoders[1], network.classifiers[1], network.decoders[1]]
    before = [b.clone() for part in absent for b in part.buffers()]
    assert_finite(network, batch)
    for part in absent:
        for parameter in part.parameters():
            assert parameter.grad is None or (parameter.grad == 0).all()
    after = [b for part in absent for b in part.buffers()]
    for a, b in zip(before, after, strict=True):
        assert torch.equal(a, b)


def test_gradcheck_of_the_terms(dense: Batch) -> None:
    network = make(replace(SMALL, quantise=False), dense)
    seen = dense.observed.T.unsqueeze(-1)
    p = draw(3, B, C, seed=70).clamp(0.05, 0.95).requires_grad_()

    def fused_bce(predictions: Tensor) -> Tensor:
        predictions = predictions * seen
        quality = network.batch_quality(dense, predictions)
        return masked_bce(
            network.fuse(predictions, dense.observed, quality), dense.labels, dense.label_mask
        )

    def distilled(predictions: Tensor) -> Tensor:
        return network.distillation_loss(dense, predictions * seen, draw(B, C, seed=77))

    assert torch.autograd.gradcheck(fused_bce, (p,))
    assert torch.autograd.gradcheck(distilled, (p,))
    assert torch.autograd.gradcheck(lambda t: bce_entries(t, dense.labels), (p[0],))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [SMALL, RELEASED], ids=["default", "released"])
@pytest.mark.parametrize("form", FORMS)
def test_gradcheck_of_the_reconstruction(settings: SCSDSettings, form: str) -> None:
    batch = make_batch(form, settings)
    network = make(settings, batch)
    codes = draw(sum(batch.sizes), 8, seed=80).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: reconstruction(network, batch, z), (codes,))


def test_switches_remove_their_terms() -> None:
    full = {"classification", "distillation", "reconstruction", "quantisation"}
    assert set(make(SMALL, make_batch()).loss_terms(make_batch())) == full
    for switch, term in [
        ("self_distillation", "distillation"),
        ("reconstruction", "reconstruction"),
        ("quantise", "quantisation"),
    ]:
        settings = replace(SMALL, **{switch: False})
        batch = make_batch("packed", settings)
        assert set(make(settings, batch).loss_terms(batch)) == full - {term}
