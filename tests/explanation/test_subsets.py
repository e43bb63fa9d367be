"""Answers to subsets of the views: those of the model, with as few questions as there can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.explanation.shapley import all_subsets
from viewgap.explanation.subsets import subset_answers

METHODS: dict[str, dict[str, Any]] = {
    "late_fusion_ridge": {},
    "extra_trees": {"n_estimators": 3},
    "imputed_logistic": {},
}


@pytest.fixture(scope="module")
def data() -> Any:
    data = viewgap.load_dataset("synthetic", n_samples=90, seed=0)
    return viewgap.amputate(data.views, data.labels, 0.4, 0.2, seed=1)


@pytest.fixture(scope="module", params=METHODS)
def model(request: Any, data: Any) -> Any:
    views, labels = data
    labels = labels[:50].copy()
    labels[:, 3] = np.nan
    method = viewgap.methods.get(request.param)(**METHODS[request.param])
    with pytest.warns(viewgap.errors.ViewgapWarning, match="never observed"):
        return method.fit(views[:50], labels)


def test_they_have_the_bits_of_the_model(model: Any, data: Any) -> None:
    views, subsets = data[0][50:], all_subsets(3)
    views = views.with_observed(views.observed & (np.arange(40) != 7)[:, None])  # one has no view
    found = subset_answers(model, views, subsets, [0, 3, 5])
    for number, shown in enumerate(subsets):
        some = views.with_observed(views.observed & shown)
        expected = model._checked_probabilities(some)[:, [0, 3, 5]]
        np.testing.assert_array_equal(found[:, number], expected)


def test_a_view_that_a_sample_lacks_asks_nothing(model: Any, data: Any, monkeypatch: Any) -> None:
    views, asked = data[0][50:], []
    whole = type(model)._predict_proba
    each = getattr(type(model), "_view_scores", None)

    def counted(self: Any, some: Any) -> Any:
        asked.append(len(some))
        return whole(self, some)

    def counted_view(self: Any, some: Any, view: int) -> Any:
        asked.append(int(some.observed[:, view].sum()))
        return each(self, some, view)

    monkeypatch.setattr(type(model), "_predict_proba", counted)
    if each is not None:
        monkeypatch.setattr(type(model), "_view_scores", counted_view)
    subset_answers(model, views, all_subsets(3), [0])
    has = views.observed.sum(axis=1)
    assert sum(asked) == (has.sum() if each is not None else (2**has - 1).sum())


def test_answers_that_are_no_numbers_are_refused_as_by_the_model(data: Any) -> None:
    model = viewgap.LateFusionRidge().fit(data[0][:50], data[1][:50])
    model._weights[0][:] = np.inf
    some = data[0][50:].with_observed(np.ones((40, 3), dtype=bool))
    with np.errstate(all="ignore"), pytest.raises(viewgap.errors.ViewgapError) as found:
        model._checked_probabilities(some)
    with np.errstate(all="ignore"), pytest.raises(type(found.value)):
        subset_answers(model, some, all_subsets(3), [0])
