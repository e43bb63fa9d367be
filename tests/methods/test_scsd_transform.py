"""One representation per sample, by scikit-learn's conventions for transformers."""

import copy

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.data.viewset import ViewSet

SMALL = {
    "hidden": [16],
    "embedding": 8,
    "codebook_size": 16,
    "max_epochs": 2,
    "n_networks": 2,
    "random_state": 0,
    "device": "cpu",
}
Data = tuple[ViewSet, np.ndarray]


@pytest.fixture(scope="module")
def model(data: Data) -> viewgap.SCSD:
    return viewgap.SCSD(**SMALL).fit(data[0][:200], data[1][:200])


def test_the_representation_is_the_weighted_mean_of_the_codes(
    model: viewgap.SCSD, data: Data
) -> None:
    views = data[0][200:]
    found = model.transform(views)
    assert found.shape == (len(views), 2 * 8)
    assert found.dtype == np.float32
    codes = model.codes(views)  # of the first network
    book = model.network_.networks[0].codebook.codes.numpy()
    book = book / np.linalg.norm(book, axis=1, keepdims=True)
    vectors = book[np.maximum(codes, 0)].reshape(*codes.shape[:2], -1)
    weights = np.array(list(model.view_weights_.values())) * views.observed
    weights /= weights.sum(axis=1, keepdims=True)
    expected = np.einsum("nm,nme->ne", weights, vectors)
    np.testing.assert_allclose(found[:, :8], expected, atol=1e-6)


def test_fit_transform_is_fit_and_transform(data: Data) -> None:
    views, Y = data[0][:60], data[1][:60]
    expected = viewgap.SCSD(**SMALL).fit(views, Y).transform(views)
    assert np.array_equal(viewgap.SCSD(**SMALL).fit_transform(views, Y), expected)


def test_names_and_pandas_output(model: viewgap.SCSD, data: Data) -> None:
    names = model.get_feature_names_out()
    assert list(names[:2]) == ["scsd0", "scsd1"]
    assert len(names) == 16
    blocks = {name: data[0].rows(name)[:5] for name in data[0].names}
    frame = copy.copy(model).set_output(transform="pandas").transform(blocks)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [f"scsd{i}" for i in range(frame.shape[1])]


def test_ids_stay(model: viewgap.SCSD, data: Data) -> None:
    ids = [f"s{i}" for i in range(5)]
    frames = {name: pd.DataFrame(data[0].rows(name)[:5], index=ids) for name in data[0].names}
    assert list(model.transform(frames).index) == ids


@pytest.mark.parametrize("settings", [{"pooling": "network"}, {"profile": "paper"}])
def test_other_pooling_and_no_codebook(settings: dict[str, str], data: Data) -> None:
    model = viewgap.SCSD(**SMALL, **settings, quantise=False).fit(data[0][:60], data[1][:60])
    found = model.transform(data[0][:60])
    assert found.shape == (60, 2 * 8)
    assert np.isfinite(found).all()
