"""Scorers, searches, out-of-fold predictions, importance of views, and pipelines, with gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_validate,
    learning_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import viewgap
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, ViewError
from viewgap.methods.base import MultiViewClassifier
from viewgap.model_selection import (
    BalancedKFold,
    PerView,
    cross_val_predict,
    scorer,
    scorers,
    view_importance,
)

IDS = [f"p{i}" for i in range(80)]


@pytest.fixture(scope="module")
def data() -> tuple[ViewSet, pd.DataFrame]:
    """Two views as DataFrames; the first says everything, the second nothing."""
    rng = np.random.default_rng(0)
    truth = (rng.random((80, 3)) < 0.4).astype(float)
    good = truth @ rng.normal(size=(3, 6)) + 0.1 * rng.normal(size=(80, 6))
    noise = rng.normal(size=(80, 4))
    good[3, 2] = np.nan
    views = {
        "good": pd.DataFrame(good, IDS, [f"g{i}" for i in range(6)])[:70],
        "noise": pd.DataFrame(noise, IDS, [f"n{i}" for i in range(4)]),
    }
    labels = pd.DataFrame(truth, IDS, ["x", "y", "z"]).mask(rng.random((80, 3)) < 0.2)
    return ViewSet(views), labels


@pytest.fixture(scope="module")
def fitted(data: tuple[ViewSet, pd.DataFrame]) -> Any:
    return viewgap.LateFusionRidge(random_state=0).fit(*data)


def test_scorers_are_what_scikit_learn_says_of_the_observed_entries(data: Any, fitted: Any) -> None:
    views, labels = data
    scores = fitted.predict_proba(views).to_numpy()
    decisions = fitted.predict(views).to_numpy()
    aucs, f1s = [], []
    for truth, score, decided in zip(labels.to_numpy().T, scores.T, decisions.T, strict=True):
        seen = ~np.isnan(truth)
        aucs.append(roc_auc_score(truth[seen], score[seen]))
        f1s.append(f1_score(truth[seen], decided[seen]))
    found = scorers("macro AUC", "macro F1", "calibration error")(fitted, views, labels)
    assert found["macro AUC"] == pytest.approx(np.mean(aucs))
    assert found["macro F1"] == pytest.approx(np.mean(f1s))
    assert found["calibration error"] < 0  # lower is better: negated
    assert scorer()(fitted, views, labels) == pytest.approx(fitted.score(views, labels))
    shuffled = labels.sample(frac=1, random_state=0)  # aligned by id
    assert scorer("macro AUC")(fitted, views, shuffled) == pytest.approx(np.mean(aucs))


def test_a_scorer_of_one_label_of_words(data: Any) -> None:
    views, labels = data
    words = labels["x"].map({0.0: "well", 1.0: "ill"}).to_numpy(dtype=object)
    words[pd.isna(words)] = None
    model = viewgap.LateFusionRidge(random_state=0).fit(views.with_fixed_row_order(), words)
    seen = labels["x"].notna().to_numpy()
    well = np.asarray(model.predict_proba(views))[:, list(model.classes_).index("well")]
    expected = roc_auc_score(labels["x"][seen] == 0, well[seen])
    assert scorer("macro AUC")(model, views, words) == pytest.approx(expected)


def test_scorers_see_decisions_through_pipelines_and_searches(data: Any) -> None:
    views, labels = data
    pipeline = make_pipeline(
        PerView(StandardScaler()), viewgap.ExtraTrees(n_estimators=5, n_parts=2)
    )
    search = GridSearchCV(pipeline, {"extratrees__n_estimators": [5]}, cv=BalancedKFold(2))
    search.fit(views, labels)
    found = scorer("macro F1")(search, views, labels)
    own = search.predict(views)
    naive = [
        f1_score(labels[name].dropna(), own.loc[labels[name].dropna().index, name])
        for name in labels
    ]
    assert found == pytest.approx(np.mean(naive))


def test_unknown_metrics_are_refused() -> None:
    with pytest.raises(SettingError, match="unknown metric 'auc'; available: AP"):
        scorer("auc")
    with pytest.raises(SettingError, match="needs the name"):
        scorers()
    with pytest.raises(SettingError, match="variant"):
        scorer("AP", variant="dirty")


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_searches_take_the_folds_and_scorers(data: Any, n_jobs: int) -> None:
    views, labels = data
    groups = np.repeat(np.arange(40), 2)
    options = {"cv": BalancedKFold(3), "n_jobs": n_jobs, "error_score": "raise"}
    scoring = scorers("AP", "macro AUC")
    search: Any = GridSearchCV(
        viewgap.ImputedLogistic(), {"C": [1e-6, 1.0]}, scoring=scoring, refit="AP", **options
    )
    search.fit(views, labels, groups=groups)
    assert search.best_params_ == {"C": 1.0}
    assert np.isfinite(search.cv_results_["mean_test_macro AUC"]).all()
    search = RandomizedSearchCV(
        viewgap.ImputedLogistic(),
        {"C": [1e-3, 1.0]},
        n_iter=2,
        random_state=0,
        scoring=scorer(),
        **options,
    ).fit(views, labels)
    assert search.predict_proba(views[:4]).shape == (4, 3)


def test_cross_validate_and_learning_curve(data: Any) -> None:
    views, labels = data
    model = viewgap.LateFusionRidge(random_state=0)
    found = cross_validate(
        model,
        views,
        labels,
        cv=BalancedKFold(3),
        scoring=scorers("AP", "1-HL"),
        error_score="raise",
    )
    assert found["test_AP"].shape == found["test_1-HL"].shape == (3,)
    sizes, _, scores = learning_curve(
        *(model, views, labels),
        train_sizes=[0.5, 1.0],
        cv=BalancedKFold(3),
        scoring=scorer(),
        shuffle=True,
        random_state=0,
        error_score="raise",
    )
    assert len(sizes) == 2
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_out_of_fold_predictions_are_those_of_a_loop(data: Any, n_jobs: int | None) -> None:
    views, labels = data
    found = cross_val_predict(
        viewgap.LateFusionRidge(random_state=0), views, labels, cv=3, n_jobs=n_jobs
    )
    assert list(found.index) == IDS
    for train, test in BalancedKFold(3).split(views, labels):
        model = viewgap.LateFusionRidge(random_state=0).fit(views[train], labels.iloc[train])
        pd.testing.assert_frame_equal(found.iloc[test], model.predict_proba(views[test]))
    decided = cross_val_predict(
        viewgap.LateFusionRidge(random_state=0),
        views,
        labels,
        cv=BalancedKFold(2),
        method="predict",
    )
    assert set(np.unique(decided)) <= {0, 1}
    with pytest.raises(SettingError, match="every row in one test part"):
        cross_val_predict(
            viewgap.LateFusionRidge(random_state=0), views, labels, cv=BalancedKFold(2, n_repeats=2)
        )
    with pytest.raises(SettingError, match="method must be"):
        cross_val_predict(
            viewgap.LateFusionRidge(random_state=0), views, labels, method="transform"
        )


@pytest.mark.parametrize("how", ["permute", "hide"])
def test_importance_of_views(data: Any, fitted: Any, how: str) -> None:
    views, labels = data
    found = view_importance(
        fitted, views, labels, how=how, n_repeats=3, scoring=scorer("macro AUC")
    )
    assert found.view_names == ("good", "noise")
    assert found.importances.shape == (2, 3 if how == "permute" else 1)
    assert found.importances_mean[0] > 0.2 > abs(found.importances_mean[1])


def test_shuffling_keeps_pattern_and_ids(data: Any) -> None:
    from viewgap.model_selection.importance import _shuffled

    views, _ = data
    found = _shuffled(views, "good", np.random.default_rng(0))
    assert np.array_equal(found.observed, views.observed)
    assert found.feature_names == views.feature_names
    assert np.array_equal(found.rows("noise"), views.rows("noise"))
    before, after = views.rows("good")[:70], found.rows("good")[:70]
    assert not np.array_equal(before, after, equal_nan=True)
    assert sorted(map(tuple, np.nan_to_num(before))) == sorted(map(tuple, np.nan_to_num(after)))
    with pytest.raises(SettingError, match="how must be"):
        view_importance(None, views, None, how="drop")


def test_transformers_see_only_the_samples_that_have_the_view(data: Any) -> None:
    views, _ = data
    found = PerView({"good": StandardScaler()}).fit_transform(views)
    good = views.to_frames()["good"][:70]
    expected = StandardScaler().fit_transform(good)
    assert np.allclose(found.rows("good", slice(0, 70)), expected, atol=1e-5, equal_nan=True)
    assert np.array_equal(found.observed, views.observed)
    assert np.array_equal(found.rows("noise"), views.rows("noise"))
    assert found.sample_ids.tolist() == IDS
    assert found.feature_names == views.feature_names


def test_a_pipeline_matches_columns_and_takes_absent_views(data: Any) -> None:
    views, labels = data
    model = make_pipeline(PerView({"noise": PCA(2)}), viewgap.LateFusionRidge(random_state=0))
    model.set_output(transform="pandas").fit(views, labels)
    frames = views.to_frames()
    expected = model.predict_proba(views)
    other = ViewSet({"noise": frames["noise"].iloc[:, ::-1], "good": frames["good"][:70]})
    pd.testing.assert_frame_equal(model.predict_proba(other), expected)
    assert clone(model[0]).set_output() is not None
    assert model[0].get_feature_names_out().tolist() == ["noise__pca0", "noise__pca1"]
    with pytest.warns(viewgap.errors.ViewgapWarning, match="treated as missing: noise"):
        alone = model.predict_proba(ViewSet({"good": frames["good"][:70]}))
    assert np.isfinite(alone.to_numpy()).all()


def test_what_cannot_be_transformed_is_refused(data: Any) -> None:
    views, _ = data
    with pytest.raises(SettingError, match="names the view 'bad'"):
        PerView({"bad": PCA()}).fit(views)
    empty = views.with_observed(np.array([[False, True]] * 80))
    with pytest.raises(ViewError, match="'good' is missing for all samples"):
        PerView(StandardScaler()).fit(empty)


class Tasks:
    """A callback of scikit-learn that keeps what it is told, and stops after some epochs."""

    def __init__(self, stop_after: int = 99) -> None:
        self.told: list[str] = []
        self.stop_after = stop_after

    def setup(self, estimator: Any, context: Any) -> None:
        self.told.append("setup")

    def teardown(self, estimator: Any, context: Any) -> None:
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.told.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any) -> bool:
        if context.task_name == "fit" and isinstance(estimator, MultiViewClassifier):
            assert fitted_estimator.__sklearn_is_fitted__()
        self.told.append(f"end {context.task_name}")
        return self.told.count("end epoch") >= self.stop_after


def test_callbacks_of_scikit_learn_are_told_of_fits_and_epochs(data: Any) -> None:
    pytest.importorskip("sklearn.callback")
    views, labels = data
    callback = Tasks()
    viewgap.LabelFrequency().set_callbacks(callback).fit(views, labels)
    assert callback.told == ["setup", "begin fit", "end fit", "teardown"]
    callback = Tasks(stop_after=2)
    model = viewgap.DICNet(max_epochs=5, random_state=0).set_callbacks(callback)
    model.fit(views, labels)
    assert model.n_epochs_ == 2
    epochs = ["begin epoch", "end epoch"] * 2
    assert callback.told == ["setup", "begin fit", *epochs, "end fit", "teardown"]
    alone = viewgap.DICNet(max_epochs=2, random_state=0).fit(views, labels)
    pd.testing.assert_frame_equal(model.predict_proba(views), alone.predict_proba(views))


@pytest.mark.filterwarnings("error:.*does not support callbacks")
def test_a_search_hands_its_callbacks_on(data: Any) -> None:
    callback = pytest.importorskip("sklearn.callback")
    views, labels = data

    class Handed(Tasks):
        """One that meta-estimators hand on."""

        max_propagation_depth = None

    own = Handed()
    assert isinstance(own, callback.AutoPropagatedCallback)
    search = GridSearchCV(
        viewgap.LabelFrequency(), {"on_empty": ["error"]}, cv=BalancedKFold(2), error_score="raise"
    )
    search.set_callbacks(own).fit(views, labels)
    assert own.told[0] == "setup"
    assert own.told[-1] == "teardown"
    assert own.told.count("setup") == 1
    assert own.told.count("end fit") == 4  # two folds, the refit, and the search itself
