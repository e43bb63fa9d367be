"""Several networks in one fit and log-odds pooling of the views: of SCSD, and of any network."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import viewgap
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError

Data = tuple[ViewSet, np.ndarray]

SMALL = {
    "hidden": [16],
    "embedding": 16,
    "codebook_size": 16,
    "max_epochs": 6,
    "batch_size": 32,
    "random_state": 0,
    "device": "cpu",
    "fusion": "mean",
    "pooling": "log_odds",
    "n_networks": 3,
}
BASELINE = {"max_epochs": 2, "embedding": 8, "batch_size": 32, "random_state": 0, "device": "cpu"}
BASELINES = {
    "rank": (viewgap.RANK, {**BASELINE, "wide": 16}),
    "sip": (viewgap.SIP, {**BASELINE, "hidden": (16,)}),
    "lmvcat": (viewgap.LMVCAT, {**BASELINE, "layers": 1, "feed_forward": 16}),
    "aimnet": (viewgap.AIMNet, BASELINE),
    "aimnet by batch": (viewgap.AIMNet, {**BASELINE, "profile": "paper"}),
}
ROWWISE = [name for name in BASELINES if "batch" not in name]


@pytest.fixture(scope="module")
def model(data: Data) -> viewgap.SCSD:
    return viewgap.SCSD(**SMALL).fit(data[0][:200], data[1][:200])


def test_networks_differ(model: viewgap.SCSD) -> None:
    first, second, _ = model.network_.networks
    assert not torch.equal(first.classifiers[0].weight, second.classifiers[0].weight)


def test_prediction_pools_the_views(model: viewgap.SCSD, data: Data) -> None:
    views = data[0][200:]
    by_view = np.stack(list(model.predict_views(views).values()))
    pooling = model.network_.pooling
    with torch.no_grad():
        expected = pooling(torch.from_numpy(by_view), torch.from_numpy(np.array(views.observed)))
    np.testing.assert_allclose(model.predict_proba(views), expected.numpy(), atol=1e-6)
    assert float(pooling.power) != 1.0  # it was fitted on the held-out rows


def test_fitted_attributes(model: viewgap.SCSD, data: Data) -> None:
    views = data[0][200:]
    assert tuple(model.view_weights_) == views.names
    assert sum(model.view_weights_.values()) == pytest.approx(1.0)
    assert len(set(model.view_weights_.values())) > 1
    assert 0 < model.codebook_usage_ <= 1
    assert model.codes(views).shape == (100, views.n_views, 4)
    assert model.transform(views).shape == (100, 3 * 16)
    assert model.impute(views).observed.all()
    assert "codebook_use" in model.history_


def test_decisions_use_the_fitted_thresholds(model: viewgap.SCSD, data: Data) -> None:
    views = data[0][200:]
    assert model.thresholds_.shape == (data[1].shape[1],)
    assert not np.allclose(model.thresholds_, 0.5)
    decided = model.predict_proba(views) > model.thresholds_
    assert np.array_equal(model.predict(views), decided.astype(int))


def test_the_loss_is_the_mean_over_networks(data: Data, trained: Any) -> None:
    alone = {
        **SMALL,
        "n_networks": 1,
        "max_epochs": 1,
        "batch_size": 300,
        "validation_fraction": 0.0,
    }
    alone["random_state"] = trained.seed
    one = viewgap.SCSD(**alone).fit(*data)
    several = viewgap.SCSD(**{**alone, "n_networks": 2}).fit(*data)
    # The first network starts from the same numbers; the second one from others.
    ratio = several.history_["classification"][0] / one.history_["classification"][0]
    assert ratio != 1
    trained.below(abs(ratio - 1), 0.4, "change of the loss by a second network")


def test_without_held_out_rows_all_views_count_alike(data: Data) -> None:
    model = viewgap.SCSD(**SMALL, validation_fraction=0.0).fit(*data)
    assert len(set(model.view_weights_.values())) == 1
    assert np.all(model.thresholds_ == 0.5)


def test_validation_rows_are_learned_from_and_do_not_only_choose_the_epoch(data: Data) -> None:
    train = data[0][:150], data[1][:150]
    held, labels = data[0][150:200], data[1][150:200]
    one_epoch = {**SMALL, "max_epochs": 1, "min_epochs": 1}  # there is no epoch to choose
    fits = [
        viewgap.SCSD(**one_epoch).fit(*train, validation=(held, given))
        for given in (labels, 1.0 - labels)
    ]
    weights = [dict(fitted.network_.networks.named_parameters()) for fitted in fits]
    assert all(torch.equal(weights[0][name], value) for name, value in weights[1].items())
    assert fits[0].view_weights_ != fits[1].view_weights_
    assert not np.array_equal(fits[0].thresholds_, fits[1].thresholds_)
    assert not np.array_equal(*(fitted.predict_proba(held) for fitted in fits))


def test_scores_of_the_first_epochs_do_not_count(data: Data) -> None:
    options = {**SMALL, "n_networks": 1, "max_epochs": 8, "patience": 1}
    assert viewgap.SCSD(**options, min_epochs=6).fit(*data).best_epoch_ >= 6


# ---------------------------------------------------------------------- any deep method


@pytest.mark.parametrize("name", BASELINES)
def test_any_network_can_be_a_committee(name: str, data: Data, tmp_path: Path) -> None:
    kind, settings = BASELINES[name]
    views, test = data[0][:120], data[0][200:240]
    model = kind(**settings, n_networks=2).fit(views, data[1][:120])
    first, second = (dict(network.named_parameters()) for network in model.network_.networks)
    assert any(not torch.equal(first[key], second[key]) for key in first)
    found = model.predict_proba(test)
    viewgap.save_model(model, tmp_path / "model")
    assert np.array_equal(viewgap.load_model(tmp_path / "model").predict_proba(test), found)
    one = kind(**settings).fit(views, data[1][:120])
    assert not np.array_equal(one.predict_proba(test), found)
    if name in ROWWISE:
        assert_mean_of_networks(model, test)


def assert_mean_of_networks(model: Any, test: ViewSet) -> None:
    both = model.network_
    parts = []
    for network in both.networks:
        model.network_ = network
        parts.append(model.predict_proba(test))
    model.network_ = both
    np.testing.assert_allclose(model.predict_proba(test), np.mean(parts, axis=0), atol=1e-6)


@pytest.mark.parametrize("name", ROWWISE)
def test_any_network_can_pool_its_views(name: str, data: Data, tmp_path: Path) -> None:
    kind, settings = BASELINES[name]
    test = data[0][200:240]
    model = kind(**settings, pooling="log_odds").fit(data[0][:120], data[1][:120])
    found = model.predict_proba(test)
    alone = np.concatenate([model.predict_proba(test[i : i + 1]) for i in range(len(test))])
    np.testing.assert_allclose(found, alone, atol=1e-6)
    assert model.thresholds_.shape == (data[1].shape[1],)
    assert sum(model.view_weights_.values()) == pytest.approx(1.0)
    viewgap.save_model(model, tmp_path / "model")
    assert np.array_equal(viewgap.load_model(tmp_path / "model").predict_proba(test), found)


def test_a_view_alone_predicts_as_if_the_others_were_missing(data: Data) -> None:
    kind, settings = BASELINES["rank"]
    model = kind(**settings).fit(data[0][:120], data[1][:120])
    views = data[0][200:240]
    by_view = model.predict_views(views)
    for j, name in enumerate(views.names):
        only = np.zeros(views.observed.shape, dtype=bool)
        only[:, j] = views.observed[:, j]
        rows = np.flatnonzero(only[:, j])
        expected = model.predict_proba(views.with_observed(only)[rows])
        np.testing.assert_allclose(by_view[name][rows], expected, atol=1e-6)
        assert np.isnan(by_view[name][~only[:, j]]).all()


def test_prediction_by_batch_has_no_views_of_its_own(data: Data) -> None:
    kind, settings = BASELINES["aimnet by batch"]
    with pytest.raises(SettingError, match="pooling must be 'network'"):
        kind(**settings, pooling="log_odds").fit(*data)
    model = kind(**settings).fit(data[0][:120], data[1][:120])
    assert not hasattr(model, "predict_views")
