"""Every method can be explained: contributions of views add up, and missing views have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viewgap


@pytest.fixture(scope="session")
def explained(fitted: Any, other: Any) -> Any:
    return viewgap.explain(fitted, other.views(slice(8)))


def test_contributions_add_up_to_the_answer(explained: Any, fitted: Any, other: Any) -> None:
    views = other.views(slice(8))
    total = explained.groupby(["sample", "label"], sort=False)["contribution"].sum()
    answers = fitted.predict_proba(views)
    expected = answers - fitted.label_frequency_
    np.testing.assert_allclose(total.to_numpy().reshape(8, -1), expected, atol=1e-6)
    shown = explained.groupby(["sample", "label"], sort=False)["probability"].first()
    base = explained.groupby(["sample", "label"], sort=False)["base"].first()
    np.testing.assert_allclose(total, shown - base, atol=1e-12)  # of its own answers: exactly


def test_a_view_that_a_sample_lacks_contributes_nothing(explained: Any, other: Any) -> None:
    observed = explained["observed"].to_numpy().reshape(8, -1, 3)
    np.testing.assert_array_equal(observed, np.repeat(other.observed[:8, None], 4, axis=1))
    assert (explained.loc[~explained["observed"], "contribution"] == 0).all()


def test_columns_of_a_view_can_be_shuffled(fitted: Any, other: Any) -> None:
    asked = {"view": "shape", "groups": {"two": [0, 3], "all": range(8)}, "n_repeats": 2}
    found = viewgap.column_importance(fitted, other.views(), other.Y, **asked).set_index("group")
    score = fitted.score(other.views(), other.Y)
    np.testing.assert_allclose(found["score"], score, atol=1e-12)
    rng = np.random.RandomState(np.random.RandomState(0).randint(2**31))
    has = np.flatnonzero(other.observed[:, 1])
    step, order, losses = np.arange(len(has)), np.arange(len(has)), []
    for _ in range(2):
        rng.shuffle(step)
        order = order[step]
        block = other.blocks["shape"].copy()
        block[has[:, None], [0, 3]] = other.blocks["shape"][has[order][:, None], [0, 3]]
        views = viewgap.ViewSet(other.blocks | {"shape": block}, observed=other.observed)
        losses.append(score - fitted.score(views, other.Y))
    # answers may round differently in blocks of other rows: a tie between two labels may turn
    assert found.loc["two", "importance"] == pytest.approx(np.mean(losses), abs=0.02)


def test_views_to_measure_next_are_ranked(fitted: Any, other: Any) -> None:
    suggester = viewgap.ViewSuggester(fitted).fit(other.views(), other.Y)
    views = other.views(slice(6))
    found = suggester.suggest(views)
    assert len(found) == (~views.observed).sum()
    assert (found["n_reference"] > 0).all()
    assert np.isfinite(found["expected_gain"]).all()


def test_samples_have_neighbours_where_there_is_a_representation(fitted: Any, other: Any) -> None:
    views = other.views(slice(4))
    if not hasattr(fitted, "transform"):
        with pytest.raises(viewgap.errors.SettingError, match="no representation"):
            viewgap.nearest_samples(fitted, views, other.views())
        return
    found = viewgap.nearest_samples(fitted, views, other.views(), n=2)
    np.testing.assert_allclose(found.loc[found["rank"] == 1, "distance"], 0, atol=1e-6)
