"""`column_importance` against scikit-learn on one view, and loops that shuffle and predict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import permutation_importance

import viewgap
from viewgap.errors import LabelError, SettingError
from viewgap.explanation import column_importance, columns
from viewgap.model_selection import scorer

pytestmark = pytest.mark.filterwarnings("ignore:.*without any view:viewgap.errors.ViewgapWarning")
TEST = slice(120, 160)


def by_group(found: pd.DataFrame) -> pd.DataFrame:
    return found.set_index("group")


@pytest.mark.parametrize("metric", ["AP", "1-HL", "macro AUC"])
def test_of_one_view_it_is_permutation_importance_of_scikit_learn(data: Any, metric: str) -> None:
    x, y = data.views.rows("view1", dtype=np.float64), np.array(data.labels, dtype=float)
    model = viewgap.LateFusionRidge(views={"only": slice(None)}).fit(x[:120], y[:120])
    oracle = permutation_importance(
        model, x[TEST], y[TEST], scoring=scorer(metric), n_repeats=3, random_state=7
    )
    own = model.view_names_[0]
    found = column_importance(
        model, x[TEST], y[TEST], view=own, metric=metric, n_repeats=3, random_state=7
    )
    mean = by_group(found)["importance"]
    expected = oracle["importances_mean"]
    np.testing.assert_allclose([mean[str(i)] for i in range(len(expected))], expected, atol=1e-12)
    error = by_group(found)["standard_error"]
    spread = oracle["importances"].std(axis=1, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose([error[str(i)] for i in range(len(expected))], spread, atol=1e-12)
    assert found["importance"].is_monotonic_decreasing


def naive(model: Any, views: Any, y: Any, view: str, group: list[int], seed: int) -> np.ndarray:
    """Losses of score, shuffling by a loop over the samples that have the view."""
    has = np.flatnonzero(views.observed[:, views.names.index(view)])
    whole = model.score(views, y)
    rng = np.random.RandomState(np.random.RandomState(seed).randint(2**31))
    step, order, losses = np.arange(len(has)), np.arange(len(has)), []
    for _ in range(3):
        rng.shuffle(step)
        order = order[step]
        values = {name: views.stored(name).astype(float) for name in views.names}
        for row, other in zip(has, has[order], strict=True):
            values[view][row, group] = views.stored(view)[other, group]
        losses.append(whole - model.score(views.with_values(values, views.observed), y))
    return np.array(losses)


@pytest.mark.parametrize("method", ["ridge", "trees", "logistic"])
def test_groups_and_gaps_equal_a_loop(data: Any, method: str) -> None:
    model = {
        "ridge": viewgap.LateFusionRidge(on_empty="prior"),
        "trees": viewgap.ExtraTrees(n_estimators=5, random_state=0, on_empty="prior", n_jobs=1),
        "logistic": viewgap.ImputedLogistic(on_empty="prior"),
    }[method].fit(data.views[:120], data.labels[:120])
    rng = np.random.default_rng(0)
    views = data.views[TEST]
    values = {name: views.stored(name).astype(float) for name in views.names}
    values["view0"][rng.random(values["view0"].shape) < 0.1] = np.nan
    views = views.with_values(values, rng.random(views.observed.shape) < 0.7)
    y = np.array(data.labels[TEST], dtype=float)
    y[rng.random(y.shape) < 0.3] = np.nan
    groups = {"few": [0, 3], "one": [5], "all": range(views.dims[0])}
    found = by_group(
        column_importance(model, views, y, view="view0", groups=groups, n_repeats=3, random_state=1)
    )
    for name, own in groups.items():
        expected = naive(model, views, y, "view0", list(own), 1)
        line = found.loc[name]
        assert line["importance"] == pytest.approx(expected.mean(), abs=1e-12)
        error = expected.std(ddof=1) / np.sqrt(3)
        assert line["standard_error"] == pytest.approx(error, abs=1e-12)
    assert found["score"].iloc[0] == pytest.approx(model.score(views, y))


def test_a_column_that_says_everything_comes_first_and_an_empty_one_counts_nothing() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random((120, 2)) < 0.5).astype(float)
    signal = y + 0.1 * rng.normal(size=y.shape)
    frame = pd.DataFrame(
        {"gene_a": signal[:, 0], "gene_b": signal[:, 1], "same": 1.0, "age": rng.normal(size=120)}
    )
    views = {"genes": frame, "other": pd.DataFrame(rng.normal(size=(120, 2)))}
    model = viewgap.LateFusionRidge().fit(views, y)
    found = column_importance(model, views, y, view="genes", groups="_")
    assert found["group"].tolist()[0] == "gene"
    assert found["n_columns"].tolist()[0] == 2
    assert by_group(found).loc["same", ["importance", "standard_error"]].tolist() == [0, 0]
    named = column_importance(model, views, y, view="genes", groups={"b": ["gene_b"]})
    assert named["group"].tolist() == ["b"]


def test_only_the_view_in_question_is_computed_again(
    data: Any, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    inside = type(model)._view_scores

    def counted(self: Any, views: Any, view: int) -> Any:
        asked.append(view)
        return inside(self, views, view)

    monkeypatch.setattr(type(model), "_view_scores", counted)
    column_importance(
        model, data.views[TEST], data.labels[TEST], view="view1", groups={"a": [0], "b": [1]}
    )
    assert asked.count(1) > 10
    assert asked.count(0) == asked.count(2) <= 2


def test_a_one_dimensional_y_and_a_label_never_observed(data: Any) -> None:
    words = np.where(np.asarray(data.labels)[:, 0] == 1, "ill", "well")
    model = viewgap.LateFusionRidge().fit(data.views[:120], words[:120])
    groups = {"a": range(8)}
    found = column_importance(
        model, data.views[TEST], words[TEST], view="view0", groups=groups, metric="macro AUC"
    )
    assert np.isfinite(found["importance"]).all()
    y = np.array(data.labels, dtype=float)
    y[:120, 1] = np.nan
    with pytest.warns(viewgap.errors.ViewgapWarning, match="never observed"):
        model = viewgap.LateFusionRidge().fit(data.views[:120], y[:120])
    found = column_importance(model, data.views[TEST], y[TEST], view="view0", groups=groups)
    assert np.isfinite(found["importance"]).all()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"view": "view9"}, "found 'view9'"),
        ({"groups": {"a": ["x"]}}, "positions 0 to"),
        ({"groups": {"a": []}}, "found none"),
        ({"groups": {"a": "x"}}, "must hold a list"),
        ({"groups": {}}, "at least one group"),
        ({"groups": "_"}, "have no names"),
        ({"n_repeats": 1}, "at least 2"),
        ({"metric": "beauty"}, "unknown metric 'beauty'"),
    ],
)
def test_bad_requests_are_refused(data: Any, model: Any, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        column_importance(model, data.views[TEST], data.labels[TEST], **{"view": "view0"} | asked)


def test_names_without_a_common_prefix_no_labels_and_no_view_are_refused(
    data: Any, model: Any
) -> None:
    none = np.full((40, len(model.label_names_)), np.nan)
    with pytest.raises(LabelError, match="nothing can be scored"):
        column_importance(model, data.views[TEST], none, view="view0")
    hidden = data.views[TEST].with_observed(np.tile([False, True, True], (40, 1)))
    with pytest.raises(SettingError, match="0 of the samples have it"):
        column_importance(model, hidden, data.labels[TEST], view="view0")
    frames = {"genes": pd.DataFrame(np.eye(6), columns=list("abcdef"))}
    named = viewgap.LateFusionRidge().fit(frames, np.eye(6)[:, :2])
    with pytest.raises(SettingError, match="no two columns"):
        column_importance(named, frames, np.eye(6)[:, :2], view="genes", groups="_")


def test_methods_that_join_views_early_are_asked_as_a_whole(data: Any) -> None:
    assert isinstance(viewgap.LateFusionRidge(), columns.SeparateViews)
    assert isinstance(viewgap.ExtraTrees(), columns.SeparateViews)
    assert not isinstance(viewgap.ImputedLogistic(), columns.SeparateViews)
