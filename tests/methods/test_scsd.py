"""SCSD as a user meets it: profiles, switches, purity of prediction, and what the model knows."""

import numpy as np
import pytest

import viewgap
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError
from viewgap.methods.profiled import DataSize

SMALL = {
    "hidden": [16],
    "embedding": 16,
    "codebook_size": 16,
    "max_epochs": 8,
    "batch_size": 32,
    "min_epochs": 0,
    "n_networks": 1,
    "random_state": 0,
    "device": "cpu",
}
FROZEN = {"fusion": "label_correlation", "pooling": "network"}


@pytest.fixture(scope="module")
def model(data: tuple[ViewSet, np.ndarray]) -> viewgap.SCSD:
    return viewgap.SCSD(**SMALL).fit(data[0][:200], data[1][:200])


def in_batches(model: viewgap.SCSD, views: ViewSet, size: int) -> np.ndarray:
    parts = [model.predict_proba(views[i : i + size]) for i in range(0, len(views), size)]
    return np.concatenate(parts)


def test_paper_profile_depends_on_the_batch_as_released(data: tuple[ViewSet, np.ndarray]) -> None:
    paper = viewgap.SCSD(profile="paper", temperature=0.05, **SMALL).fit(data[0], data[1])
    assert not np.allclose(in_batches(paper, data[0], 7), paper.predict_proba(data[0]), atol=1e-6)


def test_profile_fills_what_is_not_set(data: tuple[ViewSet, np.ndarray]) -> None:
    made = viewgap.SCSD(profile="paper", **SMALL).fit(data[0][:60], data[1][:60])
    assert made.settings_.norm_rows == "all"
    assert made.settings_.view_dropout == 0
    assert made.settings_.hidden == (16,)
    assert made.hidden == [16]
    assert made.alpha is None


@pytest.mark.parametrize(
    ("n_labels", "size", "hidden", "batch_size"),
    [
        (6, DataSize(rows=415, label_entries=1200), (256,), 128),
        (6, DataSize(rows=415, label_entries=7999), (256,), 128),
        (6, DataSize(rows=1900, label_entries=8000), (512,), 128),
        (10, DataSize(rows=3500, label_entries=17_500), (256,), 256),
        (260, DataSize(rows=3500, label_entries=450_000), (2048, 1024, 512), 256),
    ],
)
def test_the_default_follows_from_the_size_of_the_data(
    n_labels: int, size: DataSize, hidden: tuple[int, ...], batch_size: int
) -> None:
    settings = viewgap.SCSD()._resolve(n_labels, size)
    assert (settings.hidden, settings.batch_size) == (hidden, batch_size)
    assert (settings.n_networks, settings.cross_fit) == (5, True)
    assert (settings.decoder, settings.pairs) == ("linear", "sampled")
    assert viewgap.SCSD(n_networks=2)._resolve(n_labels, size).n_networks == 2


def test_the_size_of_the_data_is_that_of_the_training_rows() -> None:
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=(100, 6)), "b": rng.normal(size=(100, 3))}
    Y = (X["a"][:, [0] * 80] > 0).astype(float)
    model = viewgap.SCSD(max_epochs=1, random_state=0)
    assert model.fit(X, Y).settings_.hidden == (512,)
    Y[0, 0] = np.nan  # 7,999 labels are left
    assert model.fit(X, Y).settings_.hidden == (256,)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"profile": "papers"}, "profile must be one of"),
        ({"fusion": "sum"}, "fusion must be one of 'label_correlation', 'mean', found 'sum'"),
        ({"dropout": 1.0}, r"dropout must be a number in \[0, 1\), found 1.0"),
        ({"embedding": 18}, r"a multiple of code_dim \(4\), found 18"),
        ({"hidden": []}, "1 to 100 values"),
        ({"batch_size": 1}, "a whole number from 2"),
        ({"temperature": 0}, "above 0"),
        ({"profile": "paper", "view_dropout": 0.2}, "view_dropout must be 0 with norm_rows='all'"),
        ({"distill_weight": 2}, r"in \[0, 1\]"),
        ({"reconstruction_average": "pairs"}, "pairs must be 'all' with reconstruction_average="),
        ({"validation_fraction": 1.5}, "validation_fraction must be a number in"),
    ],
)
def test_bad_settings_are_named(
    data: tuple[ViewSet, np.ndarray], setting: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        viewgap.SCSD(**{**SMALL, **setting}).fit(data[0][:60], data[1][:60])


@pytest.mark.parametrize(
    "switch",
    [
        {"self_distillation": False},
        {"teacher": False},
        {"reconstruction": False},
        {"quantise": False},
        {"cross_view": False},
        {"fusion": "label_correlation"},
        {"pooling": "network"},
        {"codebook_learning": "gradient"},
        {"label_loss": "asymmetric"},
        {"classifier": "label_graph"},
        {"classifier": "label_specific"},
    ],
)
def test_every_switch_of_the_ablation_table_changes_the_model(
    model: viewgap.SCSD, data: tuple[ViewSet, np.ndarray], switch: dict[str, object]
) -> None:
    other = viewgap.SCSD(**SMALL, **switch).fit(data[0][:200], data[1][:200])
    found = other.predict_proba(data[0])
    assert np.isfinite(found).all()
    assert not np.array_equal(found, model.predict_proba(data[0]))


def test_history_and_early_stopping(model: viewgap.SCSD) -> None:
    names = {"loss", "classification", "distillation", "reconstruction", "quantisation"}
    assert set(model.history_) == names | {"codebook_use", "validation_score"}
    assert model.n_epochs_ == len(model.history_["loss"]) == 8
    assert model.best_epoch_ == 1 + max(
        range(8), key=lambda e: (model.history_["validation_score"][e], e)
    )


def test_views_predict_where_they_are_observed(data: tuple[ViewSet, np.ndarray]) -> None:
    model = viewgap.SCSD(**SMALL, **FROZEN).fit(data[0][:200], data[1][:200])
    views = data[0]
    found = model.predict_views(views)
    stacked = np.stack([found[name] for name in views.names])
    np.testing.assert_array_equal(np.isnan(stacked[:, :, 0]).T, ~views.observed)
    weights = np.array([model.view_weights_[name] for name in views.names]) * views.observed
    weights /= weights.sum(axis=1, keepdims=True)
    fused = np.einsum("nm,mnc->nc", weights, np.nan_to_num(stacked))
    np.testing.assert_allclose(fused, model.predict_proba(views), atol=1e-6)


def test_codes_are_indices_of_the_codebook(
    model: viewgap.SCSD, data: tuple[ViewSet, np.ndarray]
) -> None:
    codes = model.codes(data[0])
    assert codes.shape == (300, data[0].n_views, 4)
    assert codes.max() < 16
    np.testing.assert_array_equal((codes == -1).all(axis=2), ~data[0].observed)
    with pytest.raises(SettingError, match="quantise=False"):
        viewgap.SCSD(**SMALL, quantise=False).fit(*data).codes(data[0])


def test_settings_that_do_not_fit_the_weights_are_refused_before_building(
    model: viewgap.SCSD,
) -> None:
    """A forged file must not make us allocate a network of the size it claims (36 TB)."""
    state = model._get_state()
    state.metadata["settings"] = {**state.metadata["settings"], "hidden": [900_000, 900_000]}
    other = viewgap.SCSD(device="cpu")
    other.view_dims_, other.label_names_ = model.view_dims_, model.label_names_
    with pytest.raises(
        ValueError, match=r"ask for networks.0.encoders.0.linears.0.weight of shape \(900000"
    ):
        other._set_state(state)
