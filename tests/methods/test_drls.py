"""DRLS: its profiles, its label graph, and degenerate input."""

from typing import Any

import numpy as np
import pytest
import torch

import viewgap
from viewgap.data.labels import Labels
from viewgap.errors import SettingError
from viewgap.methods.drls import DRLSNetwork, DRLSSettings
from viewgap.training.batches.sampled import Layout

SMALL = {"embedding": 8, "hidden": (16,), "batch_size": 16, "device": "cpu", "random_state": 0}


def fit(small: Any, **settings: Any) -> viewgap.DRLS:
    return viewgap.DRLS(**(SMALL | {"max_epochs": 3} | settings)).fit(small.views, small.Y)


def make_network(n_labels: int = 3, **settings: Any) -> DRLSNetwork:
    chosen = DRLSSettings(**({"embedding": 8, "hidden": (16,)} | settings))
    return DRLSNetwork((4, 5), n_labels, chosen, torch.Generator().manual_seed(0))


def test_views_are_not_hidden_where_missing_rows_count(small: Any) -> None:
    with pytest.raises(SettingError, match="view_dropout must be 0 with norm_rows='all'"):
        fit(small, norm_rows="all", view_dropout=0.2)


def test_layout() -> None:
    assert make_network(view_dropout=0.2).layout == Layout("packed", "observed", "cross", 0.2)
    assert make_network(norm_rows="all", view_dropout=0.0).layout == Layout("dense", "all", "cross")


def test_label_graph_counts_observed_positives_of_the_training_rows() -> None:
    values = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=np.uint8)
    observed = np.ones_like(values, dtype=bool)
    observed[2, 0] = False
    network = make_network()
    network.prepare(Labels(values, observed, ("a", "b", "c")))
    expected = torch.tensor([[0, 1 / 2, 0], [1 / 3, 0, 0], [0, 0, 0]])
    torch.testing.assert_close(network.label_graph, expected)


@pytest.mark.parametrize("profile", ["default", "paper"])
def test_label_embeddings_take_up_the_topology(small: Any, profile: str, trained: Any) -> None:
    settings = {"profile": profile, "max_epochs": 20, "random_state": trained.seed}
    history = fit(small, **settings).history_
    fallen = history["topology"][-1] / history["topology"][0]
    trained.below(fallen, 1.0, "last topology loss to the first")


def test_label_embeddings_are_the_same_in_training_and_evaluation() -> None:
    for n_labels in (1, 3):
        network = make_network(n_labels)
        before = network.train().semantics(network.label_graph)
        torch.testing.assert_close(network.eval().semantics(network.label_graph), before)


def test_hidden_views_and_dropout_train(small: Any) -> None:
    model = fit(small, profile="default", view_dropout=0.4, dropout=0.3)
    assert np.isfinite(model.predict_proba(small.views)).all()
