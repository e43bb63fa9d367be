"""SCSD on sparse labels: the fit of dense ones, by way of what is made for thousands of labels."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import viewgap
from viewgap.data import SparseLabels, as_labels
from viewgap.data.labels import sparse_labels
from viewgap.errors import ViewgapError
from viewgap.model_file import load_model, save_model
from viewgap.nn import pooling

SMALL = {"hidden": [16], "embedding": 16, "codebook_size": 16, "batch_size": 32}
COMMON = {"random_state": 0, "device": "cpu", "max_epochs": 3, "min_epochs": 0, **SMALL}
COUNTS = (100, 260, 300, 301, 2000, 20_000)
KINDS: dict[str, dict[str, Any]] = {
    "cross-fitted": {"n_networks": 3},
    "held out": {"n_networks": 1, "cross_fit": False, "label_block": 4},
    "without pooling": {"pooling": "network", "n_networks": 2, "fusion": "label_correlation"},
    "published": {"profile": "paper", "correlation_labels": 5, "label_block": 3},
}


def make_data() -> tuple[viewgap.ViewSet, np.ndarray]:
    data = viewgap.load_dataset("synthetic", n_samples=120, seed=0)
    views, labels = viewgap.amputate(data.views, data.labels, seed=0)
    return views, np.asarray(labels)


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_labels_are_fitted_as_dense_ones_are(kind: str) -> None:
    views, Y = make_data()
    own = SparseLabels.from_labels(as_labels(Y, views))
    settings = COMMON | {"precision": "float64"} | KINDS[kind]
    dense = viewgap.SCSD(**settings).fit(views, Y)
    model = viewgap.SCSD(**settings).fit(views, own)
    assert model.best_epoch_ == dense.best_epoch_
    for name, values in dense.history_.items():
        np.testing.assert_allclose(model.history_[name], values, rtol=1e-9)
    found, expected = model.predict_proba(views), dense.predict_proba(views)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    assert model.score(views, own) == pytest.approx(dense.score(views, Y), abs=1e-4)
    assert hasattr(model, "out_of_fold_proba_") == hasattr(dense, "out_of_fold_proba_")
    if hasattr(dense, "out_of_fold_proba_"):
        out_of_fold = dense.out_of_fold_proba_
        np.testing.assert_allclose(model.out_of_fold_proba_, out_of_fold, rtol=1e-5, atol=1e-7)
    # Thresholds lie between bins, 0.047 apart in log-odds.
    assert np.shape(model.thresholds_) == np.shape(dense.thresholds_)
    assert (np.shape(model.thresholds_) == ()) == (model._pooling is None)


def test_the_teacher_counts_as_much_beside_any_number_of_labels() -> None:
    """Its term is summed over labels: a fixed weight would drown the observed ones."""
    weights = {c: viewgap.SCSD()._profile("default", c, None).distill_weight for c in COUNTS}
    assert weights[100] == weights[260] == weights[300] == 0.035
    balance = [c * weight / (1 - weight) for c, weight in weights.items() if c > 300]
    np.testing.assert_allclose(balance, 10.9)


def test_blocks_of_labels_train_the_same_network() -> None:
    views, Y = make_data()
    whole = viewgap.SCSD(**COMMON, n_networks=2, precision="float64").fit(views, Y)
    model = viewgap.SCSD(**COMMON, n_networks=2, precision="float64", label_block=3).fit(views, Y)
    np.testing.assert_allclose(model.history_["loss"], whole.history_["loss"], rtol=1e-10)
    found, expected = model.predict_proba(views), whole.predict_proba(views)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_large_sparse_labels_are_never_dense(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    views, Y = make_data()
    monkeypatch.setattr(sparse_labels, "MOST_DENSE", Y.size // 2)
    monkeypatch.setattr(pooling, "_MAX_ENTRIES", Y.size // 4)
    stored = sparse.csr_array(np.where(np.isnan(Y), 2.0, Y))
    stored.data[stored.data == 2] = np.nan
    model = viewgap.SCSD(**COMMON, n_networks=3).fit(views, stored)
    assert not hasattr(model, "out_of_fold_proba_")
    assert model.training_summary_.scores is None
    assert model.training_summary_.n_positives == tuple((Y == 1).sum(axis=0).tolist())
    assert 0 < model.score(views, stored) <= 1
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(views), model.predict(views))


def test_checkpoints_know_sparse_labels(tmp_path: Any) -> None:
    views, Y = make_data()
    own = SparseLabels.from_labels(as_labels(Y, views))
    model = viewgap.SCSD(**COMMON, n_networks=1, cross_fit=False)
    model.fit(views, own, checkpoint_dir=tmp_path)
    other = SparseLabels.from_labels(as_labels(np.where(Y == 1, 0, Y), views))
    with pytest.raises(ViewgapError, match="labels"):
        model.fit(views, other, checkpoint_dir=tmp_path, resume=True)


def test_a_forged_number_of_a_compared_label_is_refused(tmp_path: Any) -> None:
    views, Y = make_data()
    model = viewgap.SCSD(**COMMON, profile="paper", correlation_labels=5).fit(views, Y)
    state = model._get_state()
    state.arrays["network/compared_labels"][2] = 99
    with pytest.raises(ValueError, match="compared labels"):
        model._set_state(state)
