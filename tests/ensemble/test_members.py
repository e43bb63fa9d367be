"""Members: out of fold means out of fold, for methods of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from viewgap.data.labels import Labels
from viewgap.data.splits import cross_fit_parts
from viewgap.ensemble import estimator, members
from viewgap.ensemble.members import Member, make_member

KINDS = ("late_fusion_ridge", "extra_trees", "random_forest", "naim3l", "label_frequency")


@pytest.fixture
def fitted_members(monkeypatch: pytest.MonkeyPatch) -> dict[str, Member]:
    """The members of the last fit, with their out-of-fold probabilities."""
    kept: dict[str, Member] = {}
    fit = estimator.fit_member

    def keep(name: str, *rest: Any) -> Member:
        kept[name] = fit(name, *rest)
        return kept[name]

    monkeypatch.setattr(estimator, "fit_member", keep)
    return kept


@pytest.mark.parametrize("name", ["late_fusion_ridge", "imputed_logistic"])
def test_rows_are_predicted_by_a_copy_that_was_fitted_without_them(
    name: str, tools: Any, fitted_members: Any
) -> None:
    views, Y = tools.make_data()
    tools.make(name).fit(views, Y)
    labels = Labels(np.nan_to_num(Y).astype(np.uint8), ~np.isnan(Y), ("0", "1", "2"))
    parts = cross_fit_parts(views, labels, 5, np.random.default_rng(0))
    model = fitted_members[name].model
    for part in range(5):
        inside, outside = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
        by_hand = clone(model).fit(views[outside], Y[outside])
        np.testing.assert_array_equal(
            fitted_members[name].out_of_fold[inside], by_hand.predict_proba(views[inside])
        )


@pytest.mark.parametrize("name", ["late_fusion_ridge", "imputed_logistic", "naim3l"])
def test_no_label_reaches_the_answers_to_its_own_part(
    name: str, tools: Any, fitted_members: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = np.arange(60) % 5  # dealt by nothing that the test changes
    monkeypatch.setattr(members, "cross_fit_parts", lambda *_: parts)
    views, Y = tools.make_data()
    tools.make(name).fit(views, Y)
    before = fitted_members[name].out_of_fold.copy()
    Y[7] = 1 - np.nan_to_num(Y[7])
    tools.make(name).fit(views, Y)
    changed = (fitted_members[name].out_of_fold != before).any(axis=1)
    assert not changed[parts == parts[7]].any()
    assert changed[parts != parts[7]].any()


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_method_can_be_a_member(name: str, tools: Any) -> None:
    views, Y = tools.make_data()
    model = tools.make(name, "late_fusion_ridge").fit(views, Y)
    assert model.out_of_fold_proba_.shape == Y.shape
    assert np.isfinite(model.predict_proba(views)).all()


def test_a_network_is_cross_fitted(tools: Any) -> None:
    views, Y = tools.make_data()
    model = tools.make("rank", "late_fusion_ridge").fit(views, Y)
    member: Any = model.members_["rank"]
    assert member.settings_.n_networks == 5
    assert member.settings_.cross_fit
    assert member.out_of_fold_proba_.shape == Y.shape


def test_a_member_fits_nothing_for_imputation(tools: Any) -> None:
    """Regressions between wide views may take longer than the network, and keep no time budget."""
    views, Y = tools.make_data()
    model = tools.make("scsd").fit(views, Y)
    assert model.members_["scsd"].imputation_error_ is None


def test_what_the_user_sets_wins() -> None:
    model: Any = make_member("rank", {"n_networks": 3}, {"device": "cpu", "n_jobs": 7})
    assert (model.n_networks, model.device, model.cross_fit) == (3, "cpu", True)
    published: Any = make_member("scsd", {"profile": "paper"}, {})
    assert published.cross_fit is None


def test_members_answer_like_methods_that_were_fitted_alone(tools: Any) -> None:
    views, Y = tools.make_data()
    model = tools.make("late_fusion_ridge").fit(views, Y)
    alone = clone(model.members_["late_fusion_ridge"]).fit(views, Y)
    found = model.members_["late_fusion_ridge"].predict_proba(views)
    np.testing.assert_array_equal(found, alone.predict_proba(views))


def test_a_view_within_one_part_leaves_the_label_frequencies(
    tools: Any, fitted_members: Any
) -> None:
    views, Y = tools.make_data()
    observed = views.observed.copy()
    observed[:, 1] = np.arange(60) == 10
    rare = views.with_observed(observed)
    model = tools.make("late_fusion_ridge").fit(rare, Y)
    np.testing.assert_allclose(
        fitted_members["late_fusion_ridge"].out_of_fold[10], model.label_frequency_
    )
    assert np.isfinite(model.predict_proba(rare)).all()
