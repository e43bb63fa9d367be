"""AIMNet: its logits one by one, forms of a batch, references, and input at the edge."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from small_batches import (
    DIMS,
    B,
    C,
    make_batch,
    make_source,
)
from small_networks import AIMNET, make_network
from viewgap.data.labels import Labels
from viewgap.errors import SettingError, ViewgapWarning
from viewgap.methods.aimnet import AIMNet, AIMNetSettings, _Network
from viewgap.methods.networks import references as kept_references

QUICK = {"embedding": 8, "heads": 2, "max_epochs": 3, "random_state": 0, "device": "cpu"}


# ---------------------------------------------------------------------- one number at a time


def test_every_logit_is_a_mean_over_views() -> None:
    """The mean of the views' logits, though it is the codes that are averaged."""
    source, network = make_source(), make_network(AIMNET)
    batch = make_batch("dense", source)
    with torch.no_grad():
        codes = torch.stack([network.encode_view(v, batch.views[v]) for v in range(3)])
        found = network.answer_together(codes, batch.observed)
        labels = network.gate(network.graph(network.label_codes, network.neighbours)).sigmoid()
    for v, rows in enumerate(codes):
        linear = batch.views[v] @ network.embed[v].weight.T + network.embed[v].bias
        torch.testing.assert_close(rows, torch.where(linear > 0, linear, 0.1 * linear))
    for i in range(B):
        trust, filled = one_sample(codes, batch.observed, i)
        for j in range(C):
            weight, bias = (p[j].detach() for p in network.classifier.parameters())
            logits = [float((weight * (x * labels[j])).sum() + bias) for x in filled]
            logit = sum(t * p for t, p in zip(trust, logits, strict=True)) / sum(trust)
            assert float(found[i, j]) == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-7)


def one_sample(codes: Tensor, observed: Tensor, i: int) -> tuple[list[float], list[Tensor]]:
    """How far each view of sample i is trusted, and its codes with missing ones filled in."""
    kernel, cosine = [0.0] * B, [-1.0] * B
    for j in range(B):
        both = [v for v in range(3) if observed[i, v] and observed[j, v]]
        if j != i and both:
            cosine[j] = max(float(torch.cosine_similarity(*codes[v, [i, j]], 0)) for v in both)
            kernel[j] = math.exp(cosine[j] / 0.2)
    trust, filled = [], []
    for v in range(3):
        have = [j for j in range(B) if observed[j, v]]
        best = max([0.0, *(cosine[j] for j in have)])
        trust.append(1.0 if observed[i, v] else min(1.0, best))
        mixed = sum((kernel[j] * codes[v, j] for j in have), torch.zeros(6).double())
        filled.append(codes[v, i] if observed[i, v] else mixed / (sum(kernel) + 1e-9))
    return trust, filled


def test_neighbours_are_labels_seen_together() -> None:
    values = np.array([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], dtype=np.uint8)
    network = make_network(AIMNET)
    network.prepare(Labels(values, np.ones((3, 4), dtype=bool), tuple("abcd")))
    expected = torch.zeros(4, 4, dtype=torch.bool)
    expected[0, 1] = expected[1, 0] = True
    assert torch.equal(network.neighbours, expected)


def test_gradient_of_the_loss() -> None:
    network, batch = make_network(AIMNET), make_batch("packed", make_source())

    def loss(*_: Tensor) -> Tensor:
        return network.loss_terms(batch)["classification"]

    assert gradcheck(loss, tuple(network.parameters()))


# ---------------------------------------------------------------------- references


@pytest.mark.parametrize("references", [4, B, 12])
def test_references_are_training_rows(references: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there are places for, all if there are fewer; the rest of the places is empty."""
    monkeypatch.setattr(kept_references, "_ROWS", 3)
    source = make_source()
    network = make_network(AIMNetSettings(embedding=6, heads=2, references=references)).eval()
    with torch.no_grad():
        network.finish_epoch(source)
        codes = network.reference_codes.clone()
        network.finish_epoch(source)
        batch = make_batch("dense", source)
        known = [network.encode_view(v, batch.views[v]) for v in range(3)]
        known = torch.stack(known) * batch.observed.T.unsqueeze(-1)
    torch.testing.assert_close(codes, network.reference_codes, rtol=0, atol=0)
    kept = min(references, B)
    found = set()
    for r in range(kept):
        same = [i for i in range(B) if torch.allclose(codes[:, r], known[:, i])]
        assert network.reference_observed[r].tolist() == batch.observed[same[0]].tolist()
        found.add(same[0])
    assert len(found) == kept
    assert not network.reference_observed[kept:].any()


def test_empty_places_change_no_answer() -> None:
    source, answers = make_source(), []
    for references in (B, 50):
        network = make_network(AIMNetSettings(embedding=6, heads=2, references=references)).eval()
        with torch.no_grad():
            network.finish_epoch(source)
            answers.append(network.predict_batch(make_batch("dense", source)))
    torch.testing.assert_close(*answers)


def test_a_seed_draws_the_references() -> None:
    source, drawn = make_source(n=40), []
    for seed in (0, 0, 1):
        settings = AIMNetSettings(embedding=6, heads=2, references=5)
        network = _Network(DIMS, C, settings, torch.Generator().manual_seed(seed)).double()
        drawn.append(network._choose_references(source)[0].rows.tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def test_paper_answers_from_the_batch(small: Any) -> None:
    model = AIMNet(profile="paper", **QUICK).fit(small.views, small.Y)
    assert model.settings_.prediction == "batch"
    assert model.network_.reference_codes.numel() == 0
    whole = model.predict_proba(small.views)
    missing = ~small.observed.all(axis=1)
    assert missing.any()
    assert np.isfinite(whole).all()
    first = int(missing.argmax())
    assert not np.allclose(whole[first], model.predict_proba(small.views[[first]])[0], atol=1e-6)


def test_a_reference_fills_in_a_missing_view(small: Any, trained: Any) -> None:
    """A sample whose other view is like a training sample's is answered as if it had both."""
    model = AIMNet(**QUICK | {"temperature": 0.01, "random_state": trained.seed})
    model.fit(small.views, small.Y)
    network = model.network_
    complete = network.reference_observed.all(dim=1)
    assert complete.any()
    codes, one_view = network.reference_codes[:, complete], torch.tensor([[True, False]])
    with torch.no_grad():
        both = network.answer(codes, torch.ones(int(complete.sum()), 2, dtype=torch.bool))
        filled = network.answer(codes, one_view.expand(len(both), 2))
        network.reference_observed.zero_()
        alone = network.answer(codes, one_view.expand(len(both), 2))
    left = (filled - both).abs().mean() / (alone - both).abs().mean()
    trained.below(float(left), 0.7, "difference of the answers to that without references")


# ---------------------------------------------------------------------- whole fits at the edge


def test_labels_that_are_never_positive(small: Any, trained: Any) -> None:
    longer = {"max_epochs": 20, "learning_rate": 0.05, "random_state": trained.seed}
    with pytest.warns(ViewgapWarning, match="early stopping is off"):
        model = AIMNet(**QUICK | longer).fit(small.views, np.zeros_like(small.Y))
    assert not model.network_.neighbours.any()
    trained.below(model.predict_proba(small.views).max(), 0.5, "largest probability")


def test_heads_must_divide_the_embedding(small: Any) -> None:
    with pytest.raises(SettingError, match=r"multiple of heads \(3\)"):
        AIMNet(**QUICK | {"heads": 3}).fit(small.views, small.Y)
    with pytest.raises(SettingError, match="sources must be"):
        AIMNet(**QUICK, sources="nobody").fit(small.views, small.Y)
