"""LMVCAT: terms of its loss one by one, forms of a batch, and input at the edge."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from small_batches import (
    DIMS,
    FORMS,
    B,
    C,
    draw,
    make_batch,
    make_source,
)
from small_networks import LMVCAT as LMVCAT_SETTINGS
from small_networks import make_network
from viewgap.errors import SettingError, ViewgapWarning
from viewgap.methods.lmvcat import LMVCAT, LMVCATSettings, _Network
from viewgap.nn.attention import TransformerLayer
from viewgap.training.batches.batch import Batch

SIZES = {"embedding": 6, "heads": 2, "layers": 2, "feed_forward": 8}
QUICK = {**SIZES, "max_epochs": 3, "random_state": 0, "device": "cpu"}


def test_label_tokens_start_as_small_as_released() -> None:
    """There they are one map of c·F inputs and F outputs, and not c rows of their own."""
    network = _Network(DIMS, 200, LMVCAT_SETTINGS, torch.Generator().manual_seed(0))
    bound = math.sqrt(6.0 / (201 * LMVCAT_SETTINGS.embedding))
    assert 0.95 * bound < float(network.label_tokens.detach().abs().max()) <= bound


# ---------------------------------------------------------------------- one number at a time


def bce(p: float, y: float) -> float:
    return -(y * math.log(p + 1e-5) + (1 - y) * math.log(1 - p + 1e-5))


def test_terms_of_the_loss() -> None:
    network, batch = make_network(LMVCAT_SETTINGS), make_batch("dense", make_source())
    with torch.no_grad():
        terms = network.loss_terms(batch)
        codes = torch.stack([network.encode_view(v, batch.views[v]) for v in range(3)])
        tokens = network.view_tokens(codes, batch.observed)
        main, auxiliary = naive_answers(network, tokens, batch.observed)
    cells = [(i, j) for i in range(B) for j in range(C) if batch.label_mask[i, j]]
    y = batch.labels.tolist()
    for name, factor, found in (("classification", 1.0, main), ("auxiliary", 0.1, auxiliary)):
        loss = factor * sum(bce(found[i][j], y[i][j]) for i, j in cells) / len(cells)
        assert float(terms[name]) == pytest.approx(loss, rel=1e-9)
    assert float(terms["label_guided"]) == pytest.approx(10 * naive_guided(batch, tokens), rel=1e-7)


def naive_answers(network: _Network, tokens: Tensor, observed: Tensor) -> tuple[list, list]:
    """Every sample alone, all its tokens through a plain layer."""
    main, auxiliary = [], []
    for i in range(len(tokens)):
        have = [v for v in range(3) if observed[i, v]]
        raw = {v: math.exp(float(network.strength[v]) ** 2) for v in have}
        fused = sum(raw[v] / sum(raw.values()) * tokens[i, v] for v in have)
        rows = torch.cat([fused.unsqueeze(0), network.label_tokens]).unsqueeze(0)
        joined = network.norm(TransformerLayer.forward(network.joint, rows))[0]
        main.append(torch.sigmoid(network.classifier(joined[0])).tolist())
        of_labels = [
            float(joined[1 + j] @ network.label_weight[j] + network.label_bias[j]) for j in range(C)
        ]
        auxiliary.append([1 / (1 + math.exp(-s)) for s in of_labels])
    return main, auxiliary


def naive_guided(batch: Batch, tokens: Tensor) -> float:
    of_views = []
    known = (batch.labels * batch.label_mask).tolist()
    mask = batch.label_mask.tolist()
    for v in range(3):
        losses = []
        for i in range(B):
            for j in range(B):
                if i == j or not (batch.observed[i, v] and batch.observed[j, v]):
                    continue
                alike = sum(a * b for a, b in zip(known[i], known[j], strict=True))
                asked = sum(a * b for a, b in zip(mask[i], mask[j], strict=True))
                cosine = float(torch.cosine_similarity(tokens[i, v], tokens[j, v], 0))
                losses.append(bce(min(1.0, (1 + cosine) / 2), alike / (asked + 1e-9)))
        of_views.append(sum(losses) / len(losses))
    return 0.5 * sum(of_views) / 3


def test_prediction_needs_no_label_tokens_but_is_the_same() -> None:
    network, batch = make_network(LMVCAT_SETTINGS), make_batch("packed", make_source())
    with torch.no_grad():
        codes = batch.stack(torch.cat(network.encode(batch)))
        tokens = network.view_tokens(codes, batch.observed)
        main, auxiliary = network.answer_tokens(tokens, batch.observed)
        assert auxiliary is not None
        torch.testing.assert_close(network.eval().predict_batch(batch), main)
        assert network.answer_tokens(tokens, batch.observed)[1] is None


def test_gradient_of_the_loss() -> None:
    sizes = {"embedding": 4, "heads": 2, "layers": 1, "feed_forward": 4}
    network = make_network(LMVCATSettings(**sizes, dropout=0.0, input_dropout=0.0))
    batch = make_batch("packed", make_source())

    def loss(*_: Tensor) -> Tensor:
        return torch.stack(list(network.loss_terms(batch).values()))

    assert gradcheck(loss, tuple(network.parameters()))


def test_without_a_weight_there_is_no_auxiliary_term() -> None:
    network = make_network(LMVCATSettings(**SIZES, beta=0.0))
    terms = network.loss_terms(make_batch("packed", make_source()))
    assert set(terms) == {"classification", "label_guided"}


# ---------------------------------------------------------------------- forms of a batch


@pytest.mark.parametrize("form", FORMS)
def test_noise_in_missing_views_changes_nothing(form: str) -> None:
    """The released code has it; by the mask it reaches no number that counts."""
    network, losses = make_network(LMVCAT_SETTINGS), []
    for noise_seed in (None, 7):
        source = make_source(noise_seed=noise_seed)
        batch = make_batch(form, source)
        losses.append(torch.stack(list(network.loss_terms(batch).values())))
    torch.testing.assert_close(*losses, rtol=0, atol=0)
    seen = batch.observed.T.unsqueeze(-1)
    codes = draw(3, len(batch), 6, seed=30)
    noisy = torch.where(seen, codes, 100 * draw(3, len(batch), 6, seed=31))
    tokens = [network.view_tokens(c, batch.observed) for c in (codes, noisy)]
    torch.testing.assert_close(tokens[0][batch.observed], tokens[1][batch.observed])
    for part in (0, 1):
        answers = [network.answer_tokens(t, batch.observed)[part] for t in tokens]
        torch.testing.assert_close(*answers)
    torch.testing.assert_close(*[network.guided_contrast(batch, t) for t in tokens])


# ---------------------------------------------------------------------- whole fits


def test_labels_that_are_never_positive(small: Any) -> None:
    with pytest.warns(ViewgapWarning, match="early stopping is off"):
        model = LMVCAT(**QUICK).fit(small.views, np.zeros_like(small.Y))
    assert np.isfinite(model.predict_proba(small.views)).all()


def test_heads_must_divide_the_embedding(small: Any) -> None:
    with pytest.raises(SettingError, match=r"multiple of heads \(4\)"):
        LMVCAT(**QUICK | {"heads": 4}).fit(small.views, small.Y)
