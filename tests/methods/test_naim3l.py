"""NAIM3L: its features, its answers and its two profiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viewgap.errors import RunError
from viewgap.methods.naim3l import NAIM3L
from viewgap.methods.naim3l.features import Projection


@pytest.mark.parametrize("shape", [(30, 6), (6, 30), (12, 12)])
@pytest.mark.parametrize("standardise", [False, True])
def test_features_are_principal_components_of_length_one(shape: Any, standardise: bool) -> None:
    rng = np.random.default_rng(0)
    block = (rng.normal(size=shape) * rng.uniform(1, 5, shape[1]) + 3).astype(np.float32)
    block[:, 2] = 0.1  # constant
    exact = block.astype(np.float64)
    centred = exact - exact.mean(axis=0)
    centred[:, 2] = 0.0
    if standardise:
        centred[:, np.arange(shape[1]) != 2] /= np.delete(exact.std(axis=0), 2)
    _, _, right = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ right[:4].T
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = Projection.fit(block, 4, standardise).features(block)
    assert found.shape == (shape[0], 5)
    signs = np.sign(np.sum(found[:, :4] * expected, axis=0))
    np.testing.assert_allclose(found[:, :4] * signs, expected, atol=1e-6)
    np.testing.assert_array_equal(found[:, 4], 1.0)


def test_a_view_without_variance_has_the_constant_only() -> None:
    for block in (np.full((1, 5), 3.0), np.full((7, 5), 0.1)):
        for standardise in (False, True):
            projection = Projection.fit(block.astype(np.float32), 50, standardise)
            assert projection.width == 1
            np.testing.assert_array_equal(projection.features(block[:1]), [[1.0]])


def test_answers_are_the_mean_over_the_observed_views(small: Any) -> None:
    model = NAIM3L(random_state=0, max_iter=20).fit(small.views, small.Y)
    found = model.predict_proba(small.views)
    for i in range(60):
        scores = []
        for v, name in enumerate(small.blocks):
            if small.observed[i, v]:
                row = small.blocks[name][[i]].astype(np.float32)
                scores.append(model._projections[v].features(row)[0] @ model._weights[v])
        mean = np.mean(scores, axis=0)
        inside = np.abs(mean) < 0.98
        np.testing.assert_allclose(found[i][inside], (mean[inside] + 1) / 2, atol=1e-9)
        np.testing.assert_array_equal(np.argsort(found[i]), np.argsort(mean))
        np.testing.assert_array_equal(found[i] > 0.5, mean > 0)


def test_the_released_procedure_learns(small: Any, trained: Any) -> None:
    own = NAIM3L(profile="paper", rank_weight=1.5, components=3, max_iter=20)
    own.set_params(random_state=trained.seed).fit(small.views, small.Y)
    assert own.settings_.rank_weight == 1.5
    trained.above(own.score(small.views, small.Y), 0.7, "training AP")


def test_only_the_paper_profile_is_random(small: Any) -> None:
    def answers(seed: int, **settings: Any) -> Any:
        model = NAIM3L(random_state=seed, max_iter=3, components=3, **settings)
        return model.fit(small.views, small.Y).predict_proba(small.views)

    np.testing.assert_array_equal(answers(0), answers(1))
    assert not np.array_equal(answers(0, profile="paper"), answers(1, profile="paper"))


def test_paper_profile_refuses_to_diverge_in_silence(small: Any) -> None:
    Y = np.where(np.isnan(small.Y), np.nan, 0.0)
    Y[0, 0] = 1.0  # one positive: nothing holds the other rows
    with pytest.raises(RunError, match="Raise penalty"):
        NAIM3L(profile="paper", random_state=0).fit(small.views, Y)
    assert np.isfinite(NAIM3L(random_state=0).fit(small.views, Y).predict_proba(small.views)).all()


def test_no_positive_label_at_all(small: Any) -> None:
    Y = np.where(np.isnan(small.Y), np.nan, 0.0)
    model = NAIM3L(random_state=0).fit(small.views, Y)
    seen = small.Y >= 0  # cells that nobody observed are free: 50 components, fewer rows
    assert (model.predict_proba(small.views)[seen] < 0.1).all()
