"""Committees whose networks leave out one part of the training rows each."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import viewgap
from viewgap import methods
from viewgap.errors import SettingError, ViewgapWarning
from viewgap.training.committee import networks_of
from viewgap.training.cross_fit import Parts

SMALL: dict[str, Any] = {
    "hidden": (16,),
    "embedding": 8,
    "max_epochs": 4,
    "batch_size": 16,
    "n_networks": 3,
    "cross_fit": True,
    "random_state": 0,
}


def make_data(n: int = 60, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    views = {"a": rng.normal(size=(n, 6)), "b": rng.normal(size=(n, 4))}
    Y = np.column_stack([views["a"][:, 0] > 0, views["b"][:, 0] > 0, rng.random(n) > 0.5])
    views["b"][: n // 3] = np.nan
    Y = Y.astype(float)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    return views, Y


def fit(Y: np.ndarray, **settings: Any) -> viewgap.SCSD:
    views, _ = make_data(len(Y))
    params = SMALL | {"codebook_size": 16, "code_dim": 4} | settings
    return viewgap.SCSD(**params).fit(views, Y)


@pytest.mark.parametrize("name", ["scsd", "rank", "dicnet", "sip", "aimnet"])
def test_every_network_method_gives_out_of_fold_probabilities(name: str) -> None:
    views, Y = make_data()
    kind = methods.get(name)
    known = {k: v for k, v in SMALL.items() if k in kind._get_param_names()}
    model = kind(**known).fit(views, Y)
    found = model.out_of_fold_proba_
    assert found.shape == Y.shape
    assert ((found >= 0) & (found <= 1)).all()
    assert not np.array_equal(found, model.predict_proba(views))


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_network_learns_nothing_of_the_labels_that_it_leaves_out(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other labels in one part: the network that leaves it out stays the same, to the bit."""
    _, Y = make_data()
    number = np.arange(len(Y)) % 3  # rows are dealt by their labels otherwise

    def same_parts(views: Any, labels: Any, n_parts: int, seed: int) -> Parts:
        return Parts.of_rows(number, n_parts, views.observed)

    monkeypatch.setattr("viewgap.methods.deep.leave_out_parts", same_parts)
    # Networks share an optimiser, whose limit of the gradient is over all of them.
    settings = {"max_grad_norm": 0.0, "patience": 100, "min_epochs": 4}
    other = np.where((number == part)[:, None], 1.0 - Y, Y)
    model, changed = fit(Y, **settings), fit(other, **settings)
    pairs = zip(networks_of(model.network_), networks_of(changed.network_), strict=True)
    assert [_equal_weights(*pair) for pair in pairs] == [k == part for k in range(3)]


def _equal_weights(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


def test_no_rows_are_held_out() -> None:
    _, Y = make_data()
    model = fit(Y)
    assert not np.isnan(model.out_of_fold_proba_).any()
    assert "validation_score" in model.history_


def test_validation_rows_are_used_beside_the_parts() -> None:
    views, Y = make_data()
    more, labels = make_data(30, seed=1)
    alone = fit(Y)
    both = viewgap.SCSD(**SMALL, codebook_size=16, code_dim=4).fit(
        views, Y, validation=(more, labels)
    )
    assert alone.history_["validation_score"] != both.history_["validation_score"]
    assert both.out_of_fold_proba_.shape == Y.shape


@pytest.mark.parametrize("name", ["scsd", "rank", "sip"])
def test_the_order_of_the_networks_changes_no_bit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What threads may change: a network that comes first must not draw for another."""
    from viewgap.training.steps import epoch as steps

    def backwards(function: Any, *each: Any) -> list[Any]:
        return [function(*own) for own in reversed(list(zip(*each, strict=True)))][::-1]

    views, Y = make_data()
    kind = methods.get(name)
    known = {k: v for k, v in SMALL.items() if k in kind._get_param_names()}
    one = kind(**known).fit(views, Y).predict_proba(views)
    monkeypatch.setattr(steps.PlainSteps, "_apply", property(lambda _: backwards))
    assert np.array_equal(one, kind(**known).fit(views, Y).predict_proba(views))


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    from viewgap.training.steps import epoch as steps

    _, Y = make_data()
    used = []

    class Pool(steps.ThreadPoolExecutor):  # type: ignore[misc,name-defined]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            used.append(args[0])
            super().__init__(*args, **kwargs)

    one = fit(Y).predict_proba(make_data()[0])
    monkeypatch.setattr(steps, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(steps, "WORTH_A_THREAD", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        two = fit(Y).predict_proba(make_data()[0])
    finally:
        torch.set_num_threads(before)
    assert used == [2]
    assert np.array_equal(one, two)


def test_without_a_share_to_hold_out_all_networks_get_all_rows() -> None:
    _, Y = make_data()
    model = fit(Y, validation_fraction=0.0)
    assert not hasattr(model, "out_of_fold_proba_")
    assert model.n_epochs_ == 4


def test_a_refit_without_parts_forgets_the_old_probabilities() -> None:
    views, Y = make_data()
    model = fit(Y)
    model.set_params(cross_fit=False).fit(views, Y)
    assert not hasattr(model, "out_of_fold_proba_")


def test_too_few_rows_are_all_trained_on_with_a_warning() -> None:
    _, Y = make_data(12)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(Y)
    [told] = [str(w.message) for w in caught if "early stopping is off" in str(w.message)]
    assert "12 labelled rows are fewer than 20" in told
    assert not hasattr(model, "out_of_fold_proba_")


def test_too_few_rows_beside_validation_rows_stop_by_these() -> None:
    views, Y = make_data(12)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ViewgapWarning)
        params = SMALL | {"codebook_size": 16, "code_dim": 4}
        viewgap.SCSD(**params).fit(views, Y, validation=(views, Y))


def test_networks_that_answer_by_batch_cannot_be_cross_fitted() -> None:
    _, Y = make_data()
    with pytest.raises(SettingError, match="cross_fit"):
        viewgap.SCSD(profile="paper", cross_fit=True).fit(make_data()[0], Y)


def test_a_view_of_a_single_row_is_learned_by_every_network() -> None:
    views, Y = make_data()
    views["c"] = np.full((len(Y), 2), np.nan)
    views["c"][7] = 1.0
    params = SMALL | {"codebook_size": 16, "code_dim": 4}
    model = viewgap.SCSD(**params).fit(views, Y)
    assert np.array_equal(model.out_of_fold_proba_[7], model.label_frequency_)


def test_the_same_seed_gives_the_same_bits() -> None:
    _, Y = make_data()
    assert np.array_equal(fit(Y).out_of_fold_proba_, fit(Y).out_of_fold_proba_)
