"""CDMM: its answers, its two profiles, and memory where rows are many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from peak_memory import memory_below
from viewgap.methods.cdmm import CDMM
from viewgap.methods.linalg.blocks import soft_clip


def kernel(row: Any, anchors: Any, width: float) -> Any:
    return np.exp(-np.sum((row - anchors.astype(float)) ** 2, axis=1) / width)


def test_answers_come_from_the_observed_views(small: Any) -> None:
    model = CDMM(features="plain", random_state=0).fit(small.views, small.Y)
    found = model.predict_proba(small.views)
    blocks = [small.standardised(name) for name in small.blocks]
    for i in range(60):
        total, weight = np.zeros(3), 0.0
        for v, name in enumerate(small.blocks):
            if small.observed[i, v]:
                theta = model.view_weights_[name]
                k = kernel(blocks[v][i], model._anchors[v], model.kernel_widths_[name])
                total += theta * (k @ model._coefficients[v])
                weight += theta
        scores = np.nanmean(small.Y, axis=0) + (total / weight) @ model._correlation
        np.testing.assert_allclose(found[i], soft_clip(scores), atol=1e-5)
    assert model.thresholds_ == 0.5


def test_only_rows_with_the_view_are_anchors(small: Any) -> None:
    model = CDMM(random_state=0).fit(small.views, small.Y)
    assert [len(part) for part in model._anchors] == small.observed.sum(axis=0).tolist()
    filled = CDMM(profile="paper").fit(small.views, small.Y)
    assert [len(part) for part in filled._anchors] == [60, 60]


def test_the_paper_fills_with_means_and_zeros(small: Any) -> None:
    filled = {
        name: np.where(seen[:, None], block, block[seen].mean(axis=0))
        for seen, (name, block) in zip(small.observed.T, small.blocks.items(), strict=True)
    }
    found = CDMM(profile="paper").fit(small.views, small.Y)
    by_hand = CDMM(profile="paper").fit(filled, np.nan_to_num(small.Y))
    np.testing.assert_allclose(
        found.predict_proba(small.views), by_hand.predict_proba(filled), atol=1e-5
    )
    assert found.thresholds_ == pytest.approx(by_hand.thresholds_, abs=1e-5)


def test_the_paper_by_loops(small: Any) -> None:
    blocks = {name: block.astype(np.float32) for name, block in small.blocks.items()}
    Y = np.nan_to_num(small.Y)
    model = CDMM(profile="paper", kernel_width=0.5).fit(blocks, Y)
    unit = [b / np.linalg.norm(b, axis=1, keepdims=True) for b in blocks.values()]
    omegas = [np.stack([kernel(x, u, 0.5) for x in u.astype(float)]) for u in unit]
    P = np.eye(60) - 1 / 60
    T = Y @ model._correlation
    betas = [
        np.linalg.solve(own + 1e-5 * P @ other @ P @ own + np.eye(60) / 100, T)
        for own, other in (omegas, omegas[::-1])
    ]
    losses = [np.sum((o @ b - T) ** 2) for o, b in zip(omegas, betas, strict=True)]
    thetas = [(1e4 + sum(losses) - 2 * loss) / 2e4 for loss in losses]
    np.testing.assert_allclose(list(model.view_weights_.values()), thetas, rtol=1e-6)
    scores = sum(t * o @ b for t, o, b in zip(thetas, omegas, betas, strict=True))
    np.testing.assert_allclose(model.predict_proba(blocks), soft_clip(scores), atol=1e-4)


def test_width_and_error_weight_can_be_set(small: Any) -> None:
    model = CDMM(kernel_width=3.0, error_weight=7.0).fit(small.views, small.Y)
    assert set(model.kernel_widths_.values()) == {3.0}
    assert set(model.error_weights_.values()) == {7.0}
    assert model.exact_


def test_labels_without_evidence_count_views_alike(small: Any) -> None:
    model = CDMM(random_state=0).fit(small.views, np.where(np.isnan(small.Y), np.nan, 0.0))
    np.testing.assert_allclose(list(model.view_weights_.values()), 0.5)
    assert (model.predict_proba(small.views) < 0.1).all()


@pytest.mark.parametrize("profile", ["default", "paper"])
def test_landmarks_take_the_place_of_many_rows(small: Any, profile: str) -> None:
    wide = {"kernel_width": 30.0, "error_weight": 1.0} if profile == "default" else {}
    exact = CDMM(profile=profile, random_state=0, **wide).fit(small.views, small.Y)
    few, all_ = (
        CDMM(profile=profile, max_exact_rows=10, landmarks=count, random_state=0, **wide).fit(
            small.views, small.Y
        )
        for count in (5, 60)
    )
    assert (exact.exact_, few.exact_, all_.exact_) == (True, False, False)
    assert [len(part) for part in few._anchors] == [5, 5]
    expected = exact.predict_proba(small.views)
    np.testing.assert_allclose(all_.predict_proba(small.views), expected, atol=1e-3)
    assert np.abs(few.predict_proba(small.views) - expected).max() > 1e-3


def test_many_rows_take_no_memory_of_their_square() -> None:
    rng = np.random.default_rng(0)
    n = 4000
    X = {"a": rng.normal(size=(n, 4)), "b": rng.normal(size=(n, 3))}
    Y = (X["a"][:, :2] > 0).astype(float)
    model = CDMM(profile="paper", max_exact_rows=100, landmarks=40, random_state=0)
    with memory_below(n * n * 8 / 4):
        model.fit(X, Y)
        model.predict_proba(X)
    assert not model.exact_
