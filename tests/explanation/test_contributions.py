"""`explain` and `answers_by_pattern` against answers of the model that loops ask for."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.errors import SettingError
from viewgap.explanation import answers_by_pattern, contributions, explain, subsets

pytestmark = pytest.mark.filterwarnings("ignore:.*without any view:viewgap.errors.ViewgapWarning")


def answer(model: Any, sample: Any, shown: set[int]) -> np.ndarray:
    mask = np.array([[j in shown for j in range(sample.n_views)]])
    return model.predict_proba(sample.with_observed(mask))[0]


def naive(model: Any, sample: Any, change: Any = lambda p: p) -> np.ndarray:
    """Contributions (views, labels) by adding views in every order."""
    own = np.flatnonzero(sample.observed[0])
    orders = list(permutations(own))
    result = np.zeros((sample.n_views, len(model.label_names_)))
    for order in orders:
        for place, view in enumerate(order):
            before, after = set(order[:place]), set(order[: place + 1])
            gain = change(answer(model, sample, after)) - change(answer(model, sample, before))
            result[view] += gain / len(orders)
    return result


def as_array(table: pd.DataFrame, model: Any) -> np.ndarray:
    """(samples, labels, views)."""
    c, m = len(model.label_names_), len(model.view_names_)
    return table["contribution"].to_numpy().reshape(-1, c, m)


def log_odds(p: np.ndarray) -> np.ndarray:
    bounded = np.clip(p, 1e-6, 1 - 1e-6)
    return np.log(bounded / (1 - bounded))


@pytest.mark.parametrize(
    ("scale", "change"), [("probability", lambda p: p), ("log_odds", log_odds)]
)
def test_contributions_are_mean_gains_over_all_orders(
    model: Any, samples: Any, scale: str, change: Any
) -> None:
    found = as_array(explain(model, samples, scale=scale), model)
    for row in range(len(samples)):
        np.testing.assert_allclose(found[row].T, naive(model, samples[[row]], change), atol=1e-9)


def test_of_two_views_the_contribution_is_that_of_leaving_one_out(model: Any, samples: Any) -> None:
    pair = samples[[3]]  # views 0 and 1
    whole, none = answer(model, pair, {0, 1}), model.label_frequency_
    first = whole - answer(model, pair, {1}) + answer(model, pair, {0}) - none
    found = as_array(explain(model, pair), model)[0]
    np.testing.assert_allclose(found[:, 0], first / 2, atol=1e-12)


def test_interactions_add_up_to_contributions(model: Any, samples: Any) -> None:
    pairs = explain(model, samples, interactions=True)
    lines = pairs.groupby(["sample", "label", "view"], sort=False)["contribution"].sum()
    np.testing.assert_allclose(lines, explain(model, samples)["contribution"], atol=1e-12)
    of_two = pairs[(pairs["sample"] == samples.sample_ids[3]) & (pairs["label"] == "label0")]
    values = of_two.set_index(["view", "with_view"])["contribution"]
    joint = [answer(model, samples[[3]], s)[0] for s in ({0, 1}, {0}, {1}, set())]
    index = joint[0] - joint[1] - joint[2] + joint[3]
    assert 2 * values["view0", "view1"] == pytest.approx(index, abs=1e-12)
    assert values["view0", "view2"] == 0


def test_some_labels_and_a_frame_with_ids(data: Any, model: Any) -> None:
    names = [f"patient {i}" for i in range(3)]
    frames = {
        view: pd.DataFrame(data.views.rows(view, slice(120, 123)), index=names)
        for view in data.views.names
    }
    arrays = {view: frame.to_numpy() for view, frame in frames.items()}
    found = explain(model, frames, labels=["label2", "label0"])
    assert found["sample"].unique().tolist() == names
    assert found["label"].unique().tolist() == ["label2", "label0"]
    whole = explain(model, arrays)
    expected = whole[whole["label"] == "label2"]["contribution"].to_numpy()
    own = found[found["label"] == "label2"]["contribution"].to_numpy()
    np.testing.assert_allclose(own, expected, atol=1e-9)


def test_the_answers_do_not_depend_on_blocks(
    model: Any, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = explain(model, samples)
    monkeypatch.setattr(subsets, "BLOCK_BYTES", 1)
    monkeypatch.setattr(subsets, "rows_of_a_block", lambda _: 3)
    pd.testing.assert_frame_equal(explain(model, samples), whole, atol=1e-9)


def test_many_views_are_sampled_add_up_and_state_an_error(
    model: Any, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = explain(model, samples)
    assert (exact["standard_error"] == 0).all()
    monkeypatch.setattr(contributions, "MOST_EXACT_VIEWS", 2)
    sampled = explain(model, samples, n_permutations=400)
    three = sampled["sample"] == samples.sample_ids[7]
    assert (sampled.loc[~three, "standard_error"] == 0).all()
    total = sampled.groupby(["sample", "label"])["contribution"].sum()
    expected = exact.groupby(["sample", "label"])["contribution"].sum()
    np.testing.assert_allclose(total, expected, atol=1e-9)
    distance = (sampled["contribution"] - exact["contribution"])[three].abs()
    error = sampled.loc[three, "standard_error"]
    assert (error > 0).any()
    assert (distance <= 4 * error + 1e-12).all()
    alone = explain(model, samples[[7]], n_permutations=400)  # no other sample has a say
    np.testing.assert_allclose(alone["contribution"], sampled.loc[three, "contribution"], atol=1e-9)


def test_answers_by_pattern_are_those_of_the_model(model: Any, samples: Any) -> None:
    found = answers_by_pattern(model, samples[[7, 1]], labels="label1")
    assert found["sample"].tolist() == [samples.sample_ids[7]] * 8 + [samples.sample_ids[1]] * 2
    for _, line in found.iterrows():
        shown = {samples.names.index(name) for name in line["views"]}
        row = samples[[list(samples.sample_ids).index(line["sample"])]]
        assert line["probability"] == pytest.approx(answer(model, row, shown)[1], abs=1e-9)


def test_a_label_never_observed_has_no_contribution(data: Any) -> None:
    labels = data.labels[:80].astype(float)
    labels[:, 1] = np.nan
    with pytest.warns(viewgap.errors.ViewgapWarning, match="never observed"):
        model = viewgap.LateFusionRidge().fit(data.views[:80], labels)
    found = explain(model, data.views[[100]])
    assert found["contribution"].isna().tolist() == (found["label"] == "label1").tolist()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"labels": ["label0", "nothing"]}, "unknown: nothing"),
        ({"labels": []}, "found none"),
        ({"scale": "odds"}, "found 'odds'"),
        ({"n_permutations": 7}, "even"),
    ],
)
def test_bad_requests_are_refused(model: Any, samples: Any, asked: Any, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        explain(model, samples, **asked)


def test_a_model_that_answers_by_batch_or_none_of_ours_is_refused(
    model: Any, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingError, match="found str"):
        explain("model", samples)
    monkeypatch.setattr(subsets, "answers_by_batch", lambda _: True)
    with pytest.raises(SettingError, match="answers by batch"):
        explain(model, samples)
