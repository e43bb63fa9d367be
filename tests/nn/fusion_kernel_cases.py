"""Cases of `test_kernels.py`: the fused losses, and whole networks that use all kernels."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import Tensor

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.methods.scsd import network as scsd_network
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.methods.scsd.settings import PROFILES, SCSDSettings
from viewgap.nn import codebook, fusion, gather, losses, norm
from viewgap.nn.fusion import correlation, fusion_weights, label_correlation
from viewgap.nn.kernels import fusion as fusion_kernels
from viewgap.nn.losses import bce_entries, masked_bce, teacher_bce_rows
from viewgap.nn.reduce import LOCAL, weighted_mean
from viewgap.training.batches.epoch_index import Capacity
from viewgap.training.batches.source import BatchSource
from viewgap.training.runtime import choose_runtime

EPS, ROW_EPS = fusion._PREDICTION_EPS, fusion._ROW_EPS


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def assert_near(found: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    """Equal up to rounding, by the size of the largest number."""
    size = max(float(expected.abs().amax()) if expected.numel() else 0.0, 1e-3)
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance * size)


# ---------------------------------------------------------------------- distance of correlations


@pytest.mark.parametrize("c", [2, 5, 16, 33])
def test_correlation_gap(c: int) -> None:
    m, B = 3, 20
    predictions = draw(m, B, c)
    predictions[1, :, 0] = 0.0  # a label that a view never predicts
    target = label_correlation((draw(B, c, seed=1) > 0.6).float())
    upstream = torch.tensor([1.0, -2.0, 0.5])
    found = predictions.clone().requires_grad_()
    gaps = fusion_kernels.CorrelationGap.apply(found, target, EPS, ROW_EPS)
    gaps.backward(upstream)
    plain = predictions.double().requires_grad_()
    expected = torch.linalg.matrix_norm(
        correlation(plain.transpose(1, 2) @ plain) - target.double()
    )
    expected.backward(upstream.double())
    assert_near(gaps.detach(), expected.detach())
    assert_near(found.grad[[0, 2]], plain.grad[[0, 2]])
    # A label without predictions is divided by eps alone; float32 keeps its other gradients.
    assert_near(found.grad[1, :, 1:], plain.grad[1, :, 1:])


def test_gap_of_a_view_nobody_has() -> None:
    predictions = torch.zeros(1, 4, 3, requires_grad=True)
    target = label_correlation((draw(9, 3) > 0.5).float())
    gaps = fusion_kernels.CorrelationGap.apply(predictions, target, EPS, ROW_EPS)
    gaps.sum().backward()
    assert float(gaps.detach()) == pytest.approx(float(target.norm()), rel=1e-5)
    assert (predictions.grad == 0).all()


# ---------------------------------------------------------------------- fused prediction and losses


def plain_losses(
    p: Tensor, q: Tensor, seen: Tensor, y: Tensor, known: Tensor, *numbers: float
) -> Tensor:
    tau, share, teacher = numbers
    weights = fusion_weights(q, seen, tau)
    fused = (weights.T.unsqueeze(-1) * p).sum(dim=0).clamp(0.0, 1.0)
    rows = seen.T.to(p.dtype)
    cells = weighted_mean(
        bce_entries(p, y), known * rows.unsqueeze(-1), LOCAL, 1e-9, dim=(1, 2)
    ).sum()
    taught = teacher_bce_rows(p, fused.expand_as(p))
    taught = weighted_mean(taught, rows, LOCAL, 1e-9, dim=(1,)).sum()
    return torch.stack(
        [masked_bce(fused, y, known), (1 - share) * cells + share * teacher * taught]
    )


@pytest.mark.parametrize("teacher", [True, False])
@pytest.mark.parametrize(("m", "B", "c"), [(1, 1, 1), (2, 9, 5), (3, 17, 33)])
def test_prediction_losses(m: int, B: int, c: int, teacher: bool) -> None:
    seen = draw(B, m, seed=1) > 0.4
    seen[0] = True
    if B > 1:
        seen[1] = False  # a sample without views
        seen[:, -1] = False  # a view without samples
        seen[0, 0] = True
    predictions = draw(m, B, c).clamp(0.01, 0.99) * seen.T.unsqueeze(-1)
    quality = -draw(m, seed=2)
    quality[~seen.any(dim=0)] = -1e9
    y, known = (draw(B, c, seed=3) > 0.6).float(), (draw(B, c, seed=4) > 0.3).float()
    numbers, upstream = (0.3, 0.4, teacher), torch.tensor([2.0, -0.7])
    leaves = [predictions.clone().requires_grad_(), quality.clone().requires_grad_()]
    found = fusion_kernels.PredictionLosses.apply(*leaves, seen, y, known, *numbers)
    found.backward(upstream)
    plain = [t.double().requires_grad_() for t in (predictions, quality)]
    expected = plain_losses(*plain, seen, y.double(), known.double(), *numbers)
    expected.backward(upstream.double())
    assert_near(found.detach(), expected.detach())
    assert_near(leaves[0].grad, plain[0].grad)
    assert_near(leaves[1].grad, plain[1].grad, 2e-5)


def test_losses_without_a_known_label() -> None:
    seen = torch.ones(4, 2, dtype=torch.bool)
    p = draw(2, 4, 3).requires_grad_()
    nothing = torch.zeros(4, 3)
    q = torch.zeros(2, requires_grad=True)
    found = fusion_kernels.PredictionLosses.apply(p, q, seen, nothing, nothing, 1.0, 0.0, True)
    found.sum().backward()
    assert found.tolist() == [0.0, 0.0]
    assert (p.grad == 0).all()
    assert (q.grad == 0).all()


def test_predictions_at_the_ends_stay_finite() -> None:
    p = torch.tensor([[[0.0, 1.0, 0.0, 1.0]]])
    y = torch.tensor([[0.0, 1.0, 1.0, 0.0]])
    seen, known, q = torch.ones(1, 1, dtype=torch.bool), torch.ones(1, 4), torch.zeros(1)
    leaf, plain = p.clone().requires_grad_(), p.double().requires_grad_()
    found = fusion_kernels.PredictionLosses.apply(leaf, q, seen, y, known, 1.0, 0.5, True)
    expected = plain_losses(plain, q.double(), seen, y.double(), known.double(), 1.0, 0.5, True)
    found.sum().backward()
    expected.sum().backward()
    assert_near(found.detach(), expected.detach(), 1e-4)
    assert torch.isfinite(leaf.grad).all()
    assert_near(leaf.grad, plain.grad, 1e-2)  # 1 + 1e-5 has few digits in float32


# ---------------------------------------------------------------------- a network that uses them


N, C, DIMS = 19, 6, (5, 3, 6)
SMALL = {"hidden": (8,), "embedding": 8, "codebook_size": 11}
DEFAULT = SCSDSettings(**SMALL)
RELEASED = replace(PROFILES["paper"](C), **(SMALL | {"hidden": (8, 6)}))
VARIANTS = {
    "default": DEFAULT,
    "hidden views": replace(DEFAULT, view_dropout=0.4),
    "own view": replace(DEFAULT, cross_view=False),
    "no distillation": replace(DEFAULT, self_distillation=False),
    "no teacher": replace(DEFAULT, teacher=False),
    "mean fusion": replace(DEFAULT, fusion="mean"),
    "released": RELEASED,
    "released, own view": replace(RELEASED, cross_view=False),
}
ROWS_DIFFER = ("default", "hidden views", "own view", "released", "released, own view")


def loss_and_gradients(
    settings: SCSDSettings, precision: str, fixed: bool
) -> tuple[dict[str, Tensor], SCSDNetwork]:
    rng = np.random.default_rng(0)
    observed = rng.random((N, 3)) < 0.6
    observed[:, 0] |= ~observed.any(axis=1)
    arrays = {f"v{d}": rng.normal(size=(N, d)) for d in DIMS}
    Y = (rng.random((N, C)) < 0.5).astype(np.uint8)
    labels = Labels(Y, rng.random(Y.shape) < 0.7, tuple("abcdef"))
    runtime = choose_runtime("cpu", precision)
    source = BatchSource(ViewSet(arrays, observed), labels, None, runtime)
    network = SCSDNetwork(DIMS, C, settings, torch.Generator().manual_seed(0))
    network.prepare(labels)
    network.to(runtime.dtype).train()
    network.codebook.started.fill_(True)
    order, capacity = torch.Generator().manual_seed(1), Capacity() if fixed else None
    epoch = source.index([torch.arange(N)], network.layout, order, capacity)
    terms = network.loss_terms(source.assemble(epoch.batch(0)))
    torch.stack(list(terms.values())).sum().backward()
    return {name: value.detach() for name, value in terms.items()}, network


# Rows, and so their gathering, depend on the form of a batch; the other switches only on labels.
FORMS = [(name, True) for name in VARIANTS]
FORMS += [(name, False) for name in ROWS_DIFFER]


@pytest.mark.parametrize(("variant", "fixed"), FORMS)
def test_whole_network(variant: str, fixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step with all kernels in float32 beside one without any in float64."""
    settings, used = VARIANTS[variant], set()
    expected, plain = loss_and_gradients(settings, "float64", fixed)

    def kernels_for(x: Tensor, name: str) -> object:
        used.add(name)
        return import_module(f"viewgap.nn.kernels.{name}")

    for module in (codebook, fusion, gather, losses, norm, scsd_network):
        monkeypatch.setattr(module, "kernels_for", kernels_for)
    found, network = loss_and_gradients(settings, "highest", fixed)
    assert used == {"codebook", "fusion", "gather", "norm", "squared_error"}
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert_near(found[name], value)
    for (name, a), b in zip(network.named_parameters(), plain.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is None or (".linears." in name and name.endswith("bias")):
            continue  # the bias before a normalisation has no gradient but rounding
        assert_near(a.grad, b.grad, 2e-4)
    for (_, a), b in zip(network.named_buffers(), plain.buffers(), strict=True):
        if a.is_floating_point():
            assert_near(a, b)
        else:
            assert torch.equal(a, b)
