"""iMvWL: non-negative blocks, hard labels, rows without labels, and what it says about itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewgap.data.viewset import ViewSet
from viewgap.methods.imvwl import IMvWL
from viewgap.methods.imvwl.features import NonNegativeScaling, top_labels_above_half
from viewgap.metrics import average_precision

DIMS = {"a": 60, "b": 80}


def test_published_rows_are_absolute_and_sum_to_one() -> None:
    block = np.array([[1, -3, 0], [0, 0, 0], [1e38, 1e38, 1.2e38]], dtype=np.float32)
    found = NonNegativeScaling().apply(block)
    np.testing.assert_allclose(found[0], [0.25, 0.75, 0.0])
    np.testing.assert_array_equal(found[1], 0.0)
    np.testing.assert_allclose(found[2].sum(), 1.0, rtol=1e-6)


@pytest.mark.parametrize("signed", [False, True])
def test_default_rows_by_loops(signed: bool) -> None:
    rng = np.random.default_rng(0)
    block = (rng.random((20, 4)) * [1, 10, 1e-3, 0]).astype(np.float32)
    if signed:
        block[:, :3] -= block[:, :3].mean(axis=0)
    scaling = NonNegativeScaling.fit(block)
    found = scaling.apply(block)
    assert scaling.signed == signed
    assert found.shape == (20, scaling.width(4)) == (20, 8 if signed else 4)
    for i in range(20):
        expected = np.zeros(8)
        for j in range(3):
            value = block[i, j] / np.sqrt(np.mean(block[:, j].astype(float) ** 2))
            expected[j if value > 0 else 4 + j] = abs(value)
        expected = np.sqrt(expected / expected.sum())
        np.testing.assert_allclose(found[i], expected[: found.shape[1]], rtol=1e-5)
    np.testing.assert_allclose((found**2).sum(axis=1), 1.0, rtol=1e-5)


def test_numbers_too_small_for_a_scale_count_as_zero() -> None:
    block = np.full((3, 2), 1e-42, dtype=np.float32)
    np.testing.assert_array_equal(NonNegativeScaling.fit(block).apply(block), 0.0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_the_best_labels_of_each_row_are_above_half(seed: int, count: int) -> None:
    scores = np.random.default_rng(seed).exponential(size=(5, 6))
    found = top_labels_above_half(scores, count, np.ones(6, dtype=bool))
    assert ((found > 0) & (found < 1)).all()
    np.testing.assert_array_equal((found > 0.5).sum(axis=1), min(count, 6))
    np.testing.assert_array_equal(np.argsort(found, axis=1), np.argsort(scores, axis=1))


def test_labels_without_answer_take_no_place_above_half() -> None:
    scores = np.array([[9.0, 3.0, 2.0, 1.0]])
    answered = np.array([False, True, True, True])
    found = top_labels_above_half(scores, 2, answered)
    np.testing.assert_array_equal(found[0, 1:] > 0.5, [True, True, False])
    assert np.isfinite(top_labels_above_half(scores, 2, np.zeros(4, dtype=bool))).all()


def test_hard_labels_of_the_profiles(small: Any) -> None:
    paper = IMvWL(profile="paper", random_state=0).fit(small.views, small.Y)
    cardinality = np.nanmean(small.Y, axis=0).sum()
    assert 1 < cardinality < 2
    np.testing.assert_array_equal(paper.predict(small.views).sum(axis=1), 2)
    plain = IMvWL(profile="paper", hard_labels="half", random_state=0).fit(small.views, small.Y)
    assert plain.score(small.views, small.Y) == paper.score(small.views, small.Y)
    probabilities = plain.predict_proba(small.views)
    inside = (probabilities > 0.01) & (probabilities < 0.99)
    assert inside.mean() > 0.5


def test_rows_without_labels_shape_the_subspace_only(small: Any) -> None:
    Y = small.Y.copy()
    Y[40:] = np.nan
    model = IMvWL(random_state=0, max_iter=5).fit(small.views, Y)
    without = IMvWL(random_state=0, max_iter=5).fit(small.views[:40], Y[:40])
    assert model.unlabeled_proba_.shape == (0, 3)
    assert not np.array_equal(model._bases[0], without._bases[0])
    assert np.isfinite(model.predict_proba(small.views)).all()


def test_unlabeled_rows_are_answered(small: Any) -> None:
    model = IMvWL(random_state=0, max_iter=30)
    model.fit(small.views[:40], small.Y[:40], X_unlabeled=small.views[40:])
    assert model.n_unlabeled_ == 20
    assert model.unlabeled_proba_.shape == (20, 3)
    assert ((model.unlabeled_proba_ >= 0) & (model.unlabeled_proba_ <= 1)).all()
    model.fit(small.views, small.Y)
    assert model.unlabeled_proba_.shape == (0, 3)


def test_unlabeled_rows_do_not_spoil_the_subspace(trained: Any) -> None:
    rng = np.random.default_rng(trained.seed)
    causes = rng.gamma(0.1, size=(400, 20))
    X = ViewSet({name: causes @ rng.gamma(0.2, size=(20, d)) + 1e-3 for name, d in DIMS.items()})
    strength = causes @ rng.gamma(0.1, size=(20, 100))
    Y = (strength > np.quantile(strength, 0.97, axis=0)).astype(float)  # many labels, all rare
    rows, others = slice(0, 300), slice(300, 400)
    settings = {"profile": "paper", "subspace": 40, "random_state": trained.seed}
    alone = IMvWL(**settings).fit(X[rows], Y[rows])
    both = IMvWL(**settings).fit(X[rows], Y[rows], X_unlabeled=X[others])
    expected = average_precision(Y[others], alone.predict_proba(X[others]))
    answers = {"fit": both.unlabeled_proba_, "prediction": both.predict_proba(X[others])}
    for name, found in answers.items():
        share = average_precision(Y[others], found) / expected
        trained.above(share, 0.6, f"AP to that without them, {name}")


@pytest.mark.parametrize(("profile", "width"), [("paper", 4), ("default", 100)])
def test_width_of_the_subspace(small: Any, profile: str, width: int) -> None:
    model = IMvWL(profile=profile, random_state=0, max_iter=2).fit(small.views, small.Y)
    assert model._bases[0].shape[1] == width
    chosen = IMvWL(profile=profile, subspace=7, random_state=0, max_iter=2)
    assert chosen.fit(small.views, small.Y)._bases[0].shape[1] == 7


def test_a_narrow_problem_has_a_narrow_subspace() -> None:
    model = IMvWL(random_state=0, max_iter=2).fit({"a": np.eye(4)[:, :2]}, np.eye(4)[:, :1])
    assert model._bases[0].shape == (2, 2)
