"""TDLSR: profiles, reference samples, and what a sample can be filled in from."""

from typing import Any

import numpy as np
import pytest
import torch

import viewgap
from viewgap.data.preprocessing import PreparedRows
from viewgap.errors import SettingError
from viewgap.methods.tdlsr import TDLSRNetwork, TDLSRSettings
from viewgap.training.batches.sampled import Layout

SIZES = {"embedding": 8, "hidden": (16,), "references": 32, "neighbours": 3}
SMALL = SIZES | {"batch_size": 16, "device": "cpu", "random_state": 0}


def fit(small: Any, **settings: Any) -> viewgap.TDLSR:
    return viewgap.TDLSR(**(SMALL | {"max_epochs": 3} | settings)).fit(small.views, small.Y)


def make_network(**settings: Any) -> TDLSRNetwork:
    chosen = TDLSRSettings(**(SIZES | settings))
    return TDLSRNetwork((4, 5), 3, chosen, torch.Generator().manual_seed(0))


def test_views_are_not_hidden_where_missing_rows_count(small: Any) -> None:
    with pytest.raises(SettingError, match="view_dropout must be 0 with norm_rows='all'"):
        fit(small, norm_rows="all", view_dropout=0.2)


def test_layout() -> None:
    hidden = make_network(view_dropout=0.2)
    assert hidden.layout == Layout("packed", "observed", view_dropout=0.2)
    assert make_network(norm_rows="all").layout == Layout("dense", "all")


def test_references_are_training_samples(small: Any) -> None:
    """Their codes are those of the weights that are kept; what is not used looks empty."""
    model = fit(small, references=200, validation_fraction=0.0)
    network, n = model.network_, len(small.views)
    assert not network.reference_observed[n:].any()
    np.testing.assert_array_equal(network.reference_observed[:n].numpy(), small.views.observed)
    rows = np.flatnonzero(small.views.observed[:, 0])
    table = torch.from_numpy(PreparedRows(small.views, model.scaler_, np.float32).read(0, rows))
    with torch.no_grad():
        expected = network.encode_view(0, table)
    torch.testing.assert_close(network.reference_codes[0, :n][rows], expected, rtol=1e-4, atol=1e-5)


def test_missing_view_is_filled_in_from_references(small: Any) -> None:
    model = fit(small)
    before = model.predict_proba(small.views)
    model.network_.reference_codes.add_(1.0)
    after = model.predict_proba(small.views)
    complete = small.views.observed.all(axis=1)
    np.testing.assert_array_equal(after[complete], before[complete])
    assert (after[~complete] != before[~complete]).any()


def test_without_references_only_observed_views_answer(small: Any) -> None:
    model = fit(small)
    model.network_.reference_observed.fill_(False)
    answers = model.predict_proba(small.views)
    alone = model.predict_views(small.views)
    single = np.flatnonzero(small.views.observed.sum(axis=1) == 1)
    assert len(single)
    for row in single:
        view = small.views.names[int(small.views.observed[row].argmax())]
        np.testing.assert_allclose(answers[row], alone[view][row], rtol=1e-6)
