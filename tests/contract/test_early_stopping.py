"""Networks stop early on one label as on many, and say so where they cannot."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewgapWarning


@pytest.fixture
def network(make: Any) -> Any:
    if "patience" not in make.known:
        pytest.skip("this method does not stop early")
    return make


def test_one_label_has_a_validation_score(network: Any, problem: Any, other: Any) -> None:
    held_out = other.views(), other.Y[:, :1]
    model = network(min_epochs=0).fit(problem.views(), problem.Y[:, :1], validation=held_out)
    scores = model.history_["validation_score"]
    assert len(scores) == model.n_epochs_
    assert np.isfinite(scores).all()
    assert max(scores) <= 0  # minus the log-loss
    assert scores[model.best_epoch_ - 1] == max(scores)


def test_one_label_is_stopped_by(network: Any, problem: Any) -> None:
    """Validation labels that are the opposite of what is learned: the score soon falls."""
    Y = problem.Y[:, :1]
    settings = {"min_epochs": 0, "patience": 0, "max_epochs": 300, "learning_rate": 0.01}
    if "ema_decay" in network.known:
        settings["ema_decay"] = 0.0
    model = network(**settings).fit(problem.views(), Y, validation=(problem.views(), 1 - Y))
    assert model.n_epochs_ < 300
    assert model.n_epochs_ - model.best_epoch_ <= 1


def test_no_score_is_said_once(network: Any, problem: Any, other: Any) -> None:
    negatives = np.where(np.isnan(other.Y), np.nan, 0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ViewgapWarning)
        # Cross-fitted networks have the rows that they leave out to stop by.
        model = network(cross_fit=False).fit(
            problem.views(), problem.Y, validation=(other.views(), negatives)
        )
    messages = [str(w.message) for w in caught if issubclass(w.category, ViewgapWarning)]
    assert len(messages) == 1
    assert "early stopping is off: no label is observed with both values" in messages[0]
    assert model.n_epochs_ == network().max_epochs
    assert "validation_score" not in model.history_


def test_too_few_rows_to_hold_out_are_warned_about(network: Any, problem: Any) -> None:
    views, Y = problem.views(slice(19)), problem.Y[:19]
    with pytest.warns(ViewgapWarning, match="19 labelled rows are fewer than 20.*all 3 epochs"):
        model = network().fit(views, Y)
    assert model.n_epochs_ == 3
    assert "validation_score" not in model.history_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        silent = network(validation_fraction=0).fit(views, Y)
    np.testing.assert_array_equal(silent.predict_proba(views), model.predict_proba(views))


def test_a_view_of_the_held_out_rows_only_is_warned_about(network: Any, problem: Any) -> None:
    """With one observed row per view, most rows held out take the only row of some view."""
    observed = np.zeros((20, 3), dtype=bool)
    observed[:, 0] = True
    observed[[3, 4], [1, 2]] = True
    views = ViewSet({name: block[:20] for name, block in problem.blocks.items()}, observed)
    with pytest.warns(ViewgapWarning, match="view '(shape|text)' is observed in the rows to"):
        network(validation_fraction=0.9, cross_fit=False).fit(views, problem.Y[:20])
