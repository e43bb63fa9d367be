"""SIP: profiles, prediction by means or by draws, and degenerate input."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import viewgap
from viewgap.methods.sip import SIPNetwork, SIPSettings

SMALL = {"embedding": 8, "hidden": (16,), "batch_size": 16, "device": "cpu", "random_state": 0}


def fit(small: Any, **settings: Any) -> viewgap.SIP:
    return viewgap.SIP(**(SMALL | {"max_epochs": 3} | settings)).fit(small.views, small.Y)


def make_network(n_labels: int = 4, **settings: Any) -> SIPNetwork:
    chosen = SIPSettings(**({"embedding": 8, "hidden": (16,)} | settings))
    return SIPNetwork((3, 5), n_labels, chosen, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("method", [viewgap.SIP, viewgap.PCVE])
def test_paper_profile_draws_in_prediction_repeatably(small: Any, method: Any) -> None:
    model = method(**SMALL, profile="paper", max_epochs=3).fit(small.views, small.Y)
    found = model.predict_proba(small.views)
    np.testing.assert_array_equal(model.predict_proba(small.views), found)
    model.settings_ = model.network_.settings = replace(model.settings_, draws_in_prediction=False)
    means = model.predict_proba(small.views)
    assert 0 < np.abs(found - means).max() < 0.5


def test_prototypes_are_the_same_in_training_and_evaluation() -> None:
    """They are normalised over the labels, which are always all there."""
    network = make_network()
    for n_labels in (1, 4):
        network = make_network(n_labels)
        before = network.train().prototypes()
        running = [buffer.clone() for buffer in network.prototypes.buffers()]
        torch.testing.assert_close(network.eval().prototypes(), before)
        for old, buffer in zip(running, network.prototypes.buffers(), strict=True):
            assert torch.equal(old, buffer)


def test_draws_come_from_the_noise_generator_alone() -> None:
    network = make_network().train()
    mean, variance = torch.zeros(5, 8), torch.ones(5, 8)
    results = []
    for _ in range(2):
        network.use_noise(torch.Generator().manual_seed(3))
        results.append(network.draw(mean, variance))
    assert torch.equal(*results)
    assert not torch.equal(network.draw(mean, variance), results[0])


def test_one_label_is_learned(trained: Any) -> None:
    """What its prototype adds to the answer is the same in training and in prediction."""
    rng = np.random.default_rng(trained.seed)
    X = {"a": rng.normal(size=(120, 5)), "b": rng.normal(size=(120, 4))}
    Y = (X["a"][:, :1] + X["b"][:, :1] > 0.5).astype(float)
    model = viewgap.SIP(**(SMALL | {"max_epochs": 30, "validation_fraction": 0.0}))
    model.set_params(learning_rate=0.01, random_state=trained.seed)
    answers = model.fit(X, Y).predict_proba(X)
    trained.above(((answers > 0.5) == Y).mean(), 0.75, "training accuracy")
