"""D-VSM: its profiles, its nodes in a fit, in a cross-fit and in a model file."""

from typing import Any

import numpy as np
import pytest
import torch

import viewgap
from viewgap.model_file import load_model, save_model
from viewgap.state import State
from viewgap.training.callbacks import Callback
from viewgap.training.committee import networks_of

SMALL = {"embedding": 8, "batch_size": 16, "max_epochs": 2, "device": "cpu", "random_state": 0}


def fit(small: Any, **settings: Any) -> viewgap.DVSM:
    return viewgap.DVSM(**(SMALL | settings)).fit(small.views, small.Y)


def test_it_is_marked_as_a_reconstruction() -> None:
    assert viewgap.DVSM.certainty.startswith("reconstruction")


@pytest.mark.parametrize("profile", ["default", "paper"])
def test_nodes_are_the_views_of_the_training_rows(small: Any, profile: str) -> None:
    model = fit(small, profile=profile, validation_fraction=0.0)
    for v, nodes in enumerate(model.network_.nodes):
        name = small.views.names[v]
        seen = small.observed[:, v] if profile == "default" else slice(None)
        np.testing.assert_allclose(nodes.features, small.standardised(name)[seen], atol=1e-5)
    assert model.network_.graph is None


def test_a_view_that_is_missing_is_no_node(small: Any) -> None:
    """What training rows have in other views does not move the answer to a row without them."""
    model = fit(small, validation_fraction=0.0)
    rows = small.views[np.flatnonzero(~small.observed[:, 1])[:3]]
    complete = small.views[np.flatnonzero(small.observed.all(axis=1))[:3]]
    before = [model.predict_proba(own) for own in (rows, complete)]
    with torch.no_grad():
        model.network_.nodes[1].messages.add_(5.0)
    np.testing.assert_array_equal(model.predict_proba(rows), before[0])
    assert (model.predict_proba(complete) != before[1]).any()


def test_networks_that_leave_rows_out_have_no_nodes_of_them(small: Any) -> None:
    model = fit(small, n_networks=3, cross_fit=True)
    counts = [[len(nodes) for nodes in own.nodes] for own in networks_of(model.network_)]
    seen = small.observed.sum(axis=0)
    assert (np.sum(counts, axis=0) == 2 * seen).all()  # every row is left out by one of three
    assert np.isfinite(model.out_of_fold_proba_).all()


@pytest.mark.parametrize("settings", [{}, {"n_networks": 2}, {"pooling": "log_odds"}])
def test_a_loaded_model_has_its_nodes(small: Any, settings: Any, tmp_path: Any) -> None:
    model = fit(small, **settings)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(
        loaded.predict_proba(small.views), model.predict_proba(small.views)
    )


def test_columns_of_nodes_are_not_copied_with_the_best_weights(small: Any) -> None:
    class Look(Callback):
        def __init__(self) -> None:
            self.names: set[str] = set()

        def on_epoch_end(self, context: Any) -> None:
            self.names = set(context.state.best_weights)

    look = Look()
    model = fit(small, callbacks=[look])
    assert "nodes.0.messages" in look.names
    assert "nodes.0.features" not in look.names
    assert "nodes.0.features" in model.network_.state_dict()


def test_nodes_follow_the_averaged_weights(small: Any) -> None:
    """What is kept is what the averaged network computes of its nodes."""
    network = fit(small, ema_decay=0.9).network_
    for v, nodes in enumerate(network.nodes):
        with torch.no_grad():
            first = network.layers[0].message(torch.relu(network.embed[v](nodes.features)))
        torch.testing.assert_close(nodes.messages[0], first)


@pytest.mark.parametrize("profile", ["default", "paper"])
def test_samples_without_labels_are_nodes(small: Any, profile: str) -> None:
    model = viewgap.DVSM(**SMALL, profile=profile, validation_fraction=0.0)
    rows = {name: block[:7] for name, block in small.blocks.items()}
    model.fit(small.views, small.Y, X_unlabeled=rows)
    counts = small.observed.sum(axis=0) if profile == "default" else np.array([60, 60])
    assert [len(nodes) for nodes in model.network_.nodes] == (counts + 7).tolist()


def test_a_model_file_whose_nodes_do_not_fit_together_is_refused(small: Any) -> None:
    model = fit(small)
    state = model._get_state()
    name = "network/nodes.1.messages"
    forged = State({**state.arrays, name: state.arrays[name][:, :-1]}, state.metadata)
    with pytest.raises(ValueError, match=r"nodes\.1\.messages of shape"):
        model._set_state(forged)
