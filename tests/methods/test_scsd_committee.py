"""Several networks in one fit: what they share, how they vote, and what the model keeps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import viewgap
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError
from viewgap.methods.scsd.prediction import _damped

SMALL = {
    "hidden": [16],
    "embedding": 16,
    "codebook_size": 16,
    "max_epochs": 6,
    "batch_size": 32,
    "random_state": 0,
    "device": "cpu",
    "fusion": "mean",
    "fusion_statistics": "held_out",
    "n_networks": 3,
}


@pytest.fixture(scope="module")
def model(data: tuple[ViewSet, np.ndarray]) -> viewgap.SCSD:
    return viewgap.SCSD(**SMALL).fit(data[0][:200], data[1][:200])


def test_members_are_different_networks(model: viewgap.SCSD) -> None:
    first, second, _ = model.network_.members
    assert not torch.equal(first.classifiers[0].weight, second.classifiers[0].weight)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_prediction_is_the_same_to_the_bit_in_any_batch(
    model: viewgap.SCSD, data: tuple[ViewSet, np.ndarray], size: int
) -> None:
    views = data[0][200:]
    parts = [model.predict_proba(views[i : i + size]) for i in range(0, len(views), size)]
    assert np.array_equal(np.concatenate(parts), model.predict_proba(views))


def test_prediction_is_the_vote_over_the_views(
    model: viewgap.SCSD, data: tuple[ViewSet, np.ndarray]
) -> None:
    views = data[0][200:]
    by_view = np.stack(list(model.predict_views(views).values()))
    votes = model.network_.votes
    with torch.no_grad():
        expected = votes(torch.from_numpy(by_view), torch.from_numpy(np.array(views.observed)))
    np.testing.assert_allclose(model.predict_proba(views), expected.numpy(), atol=1e-6)
    assert float(votes.power) != 1.0  # the held-out rows were heard


def test_what_the_model_tells(model: viewgap.SCSD, data: tuple[ViewSet, np.ndarray]) -> None:
    views = data[0][200:]
    assert sum(model.view_weights_.values()) == pytest.approx(1.0)
    assert len(set(model.view_weights_.values())) > 1
    assert 0 < model.codebook_usage_ <= 1
    assert model.transform(views).shape == (100, views.n_views, 4)
    assert model.impute(views).observed.all()
    assert "codebook_use" in model.history_


def test_decisions_use_the_learned_thresholds(
    model: viewgap.SCSD, data: tuple[ViewSet, np.ndarray]
) -> None:
    views = data[0][200:]
    assert model.thresholds_.shape == (data[1].shape[1],)
    assert not np.allclose(model.thresholds_, 0.5)
    decided = model.predict_proba(views) > model.thresholds_
    assert np.array_equal(model.predict(views), decided.astype(int))


def test_a_saved_committee_answers_alike(
    model: viewgap.SCSD, data: tuple[ViewSet, np.ndarray], tmp_path: Path
) -> None:
    viewgap.save_model(model, tmp_path / "model")
    again = viewgap.load_model(tmp_path / "model")
    assert np.array_equal(again.predict_proba(data[0]), model.predict_proba(data[0]))
    assert np.array_equal(again.predict(data[0]), model.predict(data[0]))
    assert again.view_weights_ == model.view_weights_


def test_the_loss_is_the_mean_over_members(data: tuple[ViewSet, np.ndarray], trained: Any) -> None:
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
    # The first member starts from the same numbers; the second one from others.
    ratio = several.history_["classification"][0] / one.history_["classification"][0]
    assert ratio != 1
    trained.below(abs(ratio - 1), 0.4, "change of the loss by a second member")


def test_without_held_out_rows_all_views_count_alike(data: tuple[ViewSet, np.ndarray]) -> None:
    model = viewgap.SCSD(**SMALL, validation_fraction=0.0).fit(*data)
    assert len(set(model.view_weights_.values())) == 1
    assert np.all(model.thresholds_ == 0.5)


def test_validation_rows_are_learned_from_and_do_not_only_choose_the_epoch(
    data: tuple[ViewSet, np.ndarray],
) -> None:
    train = data[0][:150], data[1][:150]
    held, labels = data[0][150:200], data[1][150:200]
    one_epoch = {**SMALL, "max_epochs": 1, "min_epochs": 1}  # there is no epoch to choose
    fits = [
        viewgap.SCSD(**one_epoch).fit(*train, validation=(held, given))
        for given in (labels, 1.0 - labels)
    ]
    weights = [dict(fitted.network_.members.named_parameters()) for fitted in fits]
    assert all(torch.equal(weights[0][name], value) for name, value in weights[1].items())
    assert fits[0].view_weights_ != fits[1].view_weights_
    assert not np.array_equal(fits[0].thresholds_, fits[1].thresholds_)
    assert not np.array_equal(*(fitted.predict_proba(held) for fitted in fits))


def test_without_validation_the_same_is_learned_from_training_rows(
    data: tuple[ViewSet, np.ndarray],
) -> None:
    model = viewgap.SCSD(**SMALL).fit(data[0][:200], data[1][:200])
    assert len(set(model.view_weights_.values())) > 1
    assert (model.thresholds_ != 0.5).any()


def test_members_need_a_vote() -> None:
    views, labels = np.zeros((30, 4)), np.zeros((30, 2))
    with pytest.raises(SettingError, match="n_networks must be 1 unless"):
        viewgap.SCSD(n_networks=2, fusion_statistics="train").fit([views], labels)


def test_scores_of_the_first_epochs_do_not_count(data: tuple[ViewSet, np.ndarray]) -> None:
    options = {**SMALL, "n_networks": 1, "max_epochs": 8, "patience": 1}
    assert viewgap.SCSD(**options, min_epochs=6).fit(*data).best_epoch_ >= 6


@pytest.mark.parametrize(("power", "expected"), [(1e300, 0.0), (-1e300, np.inf), (0.5, 1.5)])
def test_any_power_of_a_model_file_can_be_computed(power: float, expected: float) -> None:
    assert _damped(3.0, 4.0, power) == expected
