"""Whole networks: forms of a batch, fixed shapes, and views, labels and samples at the edge."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from small_batches import FORMS, B, C, assert_finite, assert_forms_agree, draw
from small_networks import GAUSSIAN, OTHERS, VARIANTS, forms, make_batch, make_network, make_source
from viewgap.nn.losses import masked_bce
from viewgap.training.batches.source import batches_of_epoch
from viewgap.training.fit_state import FitState
from viewgap.training.steps.epoch import PlainSteps, ReplayedSteps, make_optimiser

NAMES = ("sip", "drls", "pcve", "tdlsr")
CASES = [(name, form) for name in VARIANTS for form in forms(name) if form != "dense"]


@pytest.mark.parametrize("name", NAMES)
def test_classification_is_the_masked_cross_entropy_of_the_answers(name: str) -> None:
    """Where draws do not move, training sees what prediction answers."""
    network, other = make_network(VARIANTS[name]), make_network(VARIANTS[name])
    batch = make_batch("packed", network)
    with torch.no_grad():
        found = network.loss_terms(batch)["classification"]
        codes = batch.stack(torch.cat(other.encode(batch)))
        if name == "tdlsr":  # the batch itself is what views are filled in from
            other.reference_codes, other.reference_observed = codes, batch.observed
        answers = other.answer(codes, batch.observed)
    torch.testing.assert_close(found, masked_bce(answers, batch.labels, batch.label_mask))


@pytest.mark.parametrize(("name", "form"), CASES)
@pytest.mark.parametrize("rows", [None, torch.tensor([7, 0, 4, 2])], ids=["all", "some"])
def test_forms_agree(name: str, form: str, rows: Tensor | None) -> None:
    """Padding changes nothing: same terms, same gradients, same running statistics."""
    networks = [make_network(VARIANTS[name]) for _ in range(2)]
    batches = [
        make_batch(own, network, None, rows)
        for own, network in zip(("dense", form), networks, strict=True)
    ]
    assert_forms_agree(networks, batches, steps=2, gradients=(1e-8, 1e-10))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_view_absent_from_the_batch(name: str, form: str) -> None:
    observed = draw(B, 3, seed=1) > 0.4
    observed[:, 0] = True
    observed[: B - 2, 1] = False
    observed[B - 2 :, 1] = True
    network = make_network(VARIANTS[name])
    batch = make_batch(form, network, make_source(observed), torch.arange(B - 2))
    assert not batch.observed[:, 1].any()
    assert_finite(network, batch)


@pytest.mark.parametrize(("name", "form"), [(n, form) for n in OTHERS for form in forms(n)])
def test_edges(name: str, form: str) -> None:
    """A view nobody has, one sample alone, no label at all."""
    observed = torch.tensor([[True, False, True]]).expand(B, 3).clone()
    for seen in (None, torch.zeros(B, C, dtype=torch.bool)):
        source = make_source(observed, seen)
        for rows in (None, torch.tensor([3])):
            network = make_network(VARIANTS[name], source, slice(None) if rows is None else [3])
            assert_finite(network, make_batch(form, network, source, rows))


@pytest.mark.parametrize("name", GAUSSIAN)
def test_fixed_shapes_train_the_same_network(name: str) -> None:
    """As a GPU replays them: all batches of one shape."""
    settings, results = VARIANTS[name], []
    for kind in (PlainSteps, ReplayedSteps):
        network = make_network(settings).train()
        optimiser = make_optimiser(network, settings)
        state = FitState(network, optimiser, torch.Generator().manual_seed(1), torch.Generator())
        steps: Any = kind(state, make_source(), settings)
        for _ in range(3):
            terms = steps.run([batches_of_epoch(B, 4, state.order)])
        results.append({term: float(value) for term, value in terms.items()})
    assert results[1] == pytest.approx(results[0], rel=1e-6)
