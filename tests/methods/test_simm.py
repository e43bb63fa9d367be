"""SIMM: its profiles, what stands for missing views and labels, and which epoch is kept."""

from typing import Any

import numpy as np

import viewgap

SMALL = {"embedding": 8, "batch_size": 16, "max_epochs": 4, "device": "cpu", "random_state": 0}


def fit(small: Any, Y: Any = None, **settings: Any) -> viewgap.SIMM:
    return viewgap.SIMM(**(SMALL | settings)).fit(small.views, small.Y if Y is None else Y)


def test_paper_keeps_the_last_epoch(small: Any) -> None:
    model = viewgap.SIMM(**SMALL | {"profile": "paper", "max_epochs": 10})
    assert model.fit(small.views, small.Y).best_epoch_ == 10


def test_paper_fills_unknown_labels_with_0_and_views_with_column_means(small: Any) -> None:
    settings = {"profile": "paper", "validation_fraction": 0.0, "scaling": "none"}
    scaled = {n: small.standardised(n) for n in small.blocks}
    views = viewgap.ViewSet(scaled, observed=small.observed)
    by_mask = viewgap.SIMM(**SMALL | settings).fit(views, small.Y)
    without = np.isnan(small.Y).all(axis=1, keepdims=True)  # such rows count in no loss of labels
    filled = np.where(without, np.nan, np.nan_to_num(small.Y))
    by_hand = viewgap.SIMM(**SMALL | settings).fit(scaled, filled)
    np.testing.assert_allclose(
        by_mask.predict_proba(views), by_hand.predict_proba(scaled), rtol=1e-4, atol=1e-6
    )


def test_what_a_missing_view_says_is_learned(small: Any) -> None:
    model = fit(small, validation_fraction=0.0)
    assert model.network_.missing.abs().sum(dim=1).min() > 0
    assert not fit(small, validation_fraction=0.0, profile="paper").network_.missing.any()
