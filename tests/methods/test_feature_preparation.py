"""Deep methods with `features="auto"`: counts and ranks in training, prediction, files, impute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import viewgap
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError
from viewgap.methods.ddinet import DDINet
from viewgap.state import State
from viewgap.training import prediction
from viewgap.training.batches import source as batches
from viewgap.training.runtime import choose_runtime

SMALL: dict[str, Any] = {
    "features": "auto",
    "hidden": [32],
    "embedding": 32,
    "codebook_size": 16,
    "batch_size": 64,
    "random_state": 0,
    "device": "cpu",
}


class Problem:
    """Counts, and positive numbers over many orders of magnitude, of the same two causes."""

    def __init__(self, n: int = 260, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        causes = rng.normal(size=(n, 2))
        rates = np.exp(np.minimum(causes @ rng.normal(size=(2, 24)) * 2, 6) - 1.5)
        self.truth = {
            "counts": rng.poisson(rates).astype(np.float32),
            "skewed": 1000 * np.exp(causes @ rng.normal(size=(2, 5)) * 2).astype(np.float32),
        }
        self.labels = (causes > 0).astype(float)
        self.observed = rng.random((n, 2)) < 0.75
        self.observed[np.arange(n), rng.integers(2, size=n)] = True

    def views(self, fill: float = 0.0, as_sparse: bool = False) -> ViewSet:
        blocks: dict[str, Any] = {
            name: np.where(seen[:, None], block, fill)
            for seen, (name, block) in zip(self.observed.T, self.truth.items(), strict=True)
        }
        if as_sparse:
            blocks["counts"] = sparse.csr_array(blocks["counts"])
        return ViewSet(blocks, observed=self.observed)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem()


@pytest.fixture(scope="module")
def model(problem: Problem) -> viewgap.SCSD:
    return viewgap.SCSD(**SMALL, max_epochs=3).fit(problem.views(), problem.labels)


def test_each_view_is_prepared_as_it_asks_for(model: viewgap.SCSD) -> None:
    assert model.settings_.features == "auto"
    assert model.scaler_ is not None
    assert [features.kind for features in model.scaler_.features] == ["counts", "rank"]


def test_answers_do_not_depend_on_other_rows(model: viewgap.SCSD, problem: Problem) -> None:
    views = problem.views()[:70]
    whole = model.predict_proba(views)
    parts = [model.predict_proba(views[i : i + 9]) for i in range(0, 70, 9)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    order = np.random.default_rng(0).permutation(70)
    np.testing.assert_array_equal(model.predict_proba(views[order]), whole[order])
    np.testing.assert_array_equal(model.predict_proba(problem.views(1e30)[:70]), whole)
    np.testing.assert_array_equal(model.predict_proba(problem.views(as_sparse=True)[:70]), whole)


def test_training_and_prediction_read_the_same_bits(
    model: viewgap.SCSD, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, rows = choose_runtime("cpu"), torch.arange(40)
    found = []
    for as_sparse, resident in ((False, True), (False, False), (True, True)):
        monkeypatch.setitem(batches.RESIDENT_BYTES, "cpu", 1 << 20 if resident else 0)
        views = problem.views(as_sparse=as_sparse)
        batch = batches.BatchSource(views, None, model.scaler_, runtime).batch(rows)
        found.append([batch.views[v].numpy() for v in (0, 1)])
    reader = prediction._Reader(problem.views(), model.scaler_, runtime, 32)
    for v, seen in enumerate(problem.observed[:40].T):
        wanted = reader.read(v, np.flatnonzero(seen)).numpy()[: seen.sum()]
        for each in found:
            values = each[v] if len(each[v]) == seen.sum() else each[v][seen]
            np.testing.assert_array_equal(values, wanted)


def test_impute_answers_in_the_units_of_the_data(trained: Any) -> None:
    problem = Problem(n=1200, seed=trained.seed)
    views = problem.views()
    model = viewgap.SCSD(**SMALL | {"max_epochs": 1}).fit(views, problem.labels)
    filled = model.impute(views)
    for j, name in enumerate(views.names):
        seen, truth, found = problem.observed[:, j], problem.truth[name], filled.rows(name)
        np.testing.assert_array_equal(found[seen], truth[seen])
        assert found.min() >= 0
        assert found.max() <= truth[seen].max()
    counts, gone = problem.truth["counts"], ~problem.observed[:, 0]
    error = np.square(filled.rows("counts") - counts)[gone].mean(axis=0) / counts.var(axis=0)
    trained.below(float(np.median(error)), 1.0, "error to that of the mean, median of the columns")


def test_a_saved_model_answers_the_same(
    model: viewgap.SCSD, problem: Problem, tmp_path: Path
) -> None:
    viewgap.save_model(model, tmp_path / "model")
    loaded = viewgap.load_model(tmp_path / "model")
    assert isinstance(loaded, viewgap.SCSD)
    for first, second in (
        (model.predict_proba(problem.views()), loaded.predict_proba(problem.views())),
        (model.impute(problem.views()).to_array(), loaded.impute(problem.views()).to_array()),
    ):
        np.testing.assert_array_equal(first, second)


def emptied(model: Any) -> Any:
    """A new estimator that knows only what a file says before its state is read."""
    other = type(model)(device="cpu")
    other.view_dims_, other.label_names_ = model.view_dims_, model.label_names_
    other.view_names_ = model.view_names_
    return other


def test_a_state_from_before_there_were_features(problem: Problem) -> None:
    views = problem.views()
    plain = DDINet(max_epochs=1, embedding=8, wide=8, random_state=0, device="cpu")
    state = plain.fit(views, problem.labels)._get_state()
    assert not {name for name in state.arrays if "kinds" in name or "knots" in name}
    del state.metadata["settings"]["features"]
    other = emptied(plain)
    other._set_state(state)
    assert other.settings_.features == "plain"
    np.testing.assert_array_equal(other._predict_proba(views), plain._predict_proba(views))


def test_knots_of_another_width_are_refused(model: viewgap.SCSD) -> None:
    state = model._get_state()
    for name in ("knots_1", "mean_1", "scale_1"):
        state.arrays[f"scaler/{name}"] = state.arrays[f"scaler/{name}"][:4]
        with pytest.raises(ValueError, match=r"columns|number per column"):
            emptied(model)._set_state(State(dict(state.arrays), state.metadata))


def test_preparation_without_scaling_is_refused(problem: Problem) -> None:
    with pytest.raises(SettingError, match="features must be 'plain' with scaling='none'; or pass"):
        viewgap.SCSD(**SMALL, scaling="none").fit(problem.views(), problem.labels)
    with pytest.raises(SettingError, match="features must be one of 'plain', 'auto', found 'rank'"):
        viewgap.SCSD(**{**SMALL, "features": "rank"}).fit(problem.views(), problem.labels)
