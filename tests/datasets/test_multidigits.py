"""MultiDigits: same bits for the same seed, sane views and labels, difficult but learnable."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from viewgap.datasets import Dataset, load_dataset
from viewgap.datasets import _descriptors as descriptors
from viewgap.errors import SettingError
from viewgap.metrics import average_precision

N_SAMPLES = 400


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_dataset("multidigits", n_samples=N_SAMPLES, seed=3)


def test_size_names_and_labels(dataset: Dataset) -> None:
    facts = dataset.statistics()
    assert (facts["n"], facts["m"], facts["c"], facts["percent_missing"]) == (N_SAMPLES, 6, 10, 0)
    assert dataset.label_names == tuple("0123456789")
    per_sample = dataset.labels.sum(axis=1)
    assert set(np.unique(per_sample)) == {1.0, 2.0, 3.0}
    assert 1.7 < facts["cardinality"] < 2.1
    assert dataset.labels.mean(axis=0).min() > 0.1


def test_views_are_finite_and_every_column_varies(dataset: Dataset) -> None:
    for name in dataset.views.names:
        block = dataset.views.rows(name)
        assert block.dtype == np.float32
        assert np.isfinite(block).all()
        assert np.mean(block.std(axis=0) > 0) > 0.75, name


def test_canvases_come_along(dataset: Dataset) -> None:
    canvas = dataset.extras["canvas"]
    assert canvas.shape == (N_SAMPLES, 16, 16)
    assert canvas.dtype == np.float32
    assert canvas.min() >= 0
    assert canvas.max() <= 1


def test_more_digits_mean_more_ink(dataset: Dataset) -> None:
    """Labels and canvases belong together."""
    ink = dataset.extras["canvas"].sum(axis=(1, 2))
    count = dataset.labels.sum(axis=1)
    assert ink[count == 1].mean() < ink[count == 2].mean() < ink[count == 3].mean()


def test_same_seed_same_bits_and_no_global_random_numbers(dataset: Dataset) -> None:
    np.random.seed(1)  # noqa: NPY002  the state that must neither be used nor changed
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    again = load_dataset("multidigits", n_samples=N_SAMPLES, seed=3)
    after = np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(again.labels, dataset.labels)
    for name in dataset.views.names:
        assert again.views.rows(name).tobytes() == dataset.views.rows(name).tobytes()


def test_another_seed_gives_other_data(dataset: Dataset) -> None:
    other = load_dataset("multidigits", n_samples=N_SAMPLES, seed=4)
    assert not np.array_equal(other.labels, dataset.labels)


def test_no_two_canvases_are_equal(dataset: Dataset) -> None:
    pictures = {canvas.tobytes() for canvas in dataset.extras["canvas"]}
    assert len(pictures) == N_SAMPLES


def ridge_scores(dataset: Dataset, names: list[str]) -> NDArray[np.float64]:
    """Scores of the second half of the samples by ridge regression on the first half."""
    half = len(dataset) // 2
    block = np.hstack([dataset.views.rows(name, dtype=np.float64) for name in names])
    block = (block - block[:half].mean(axis=0)) / (block[:half].std(axis=0) + 1e-9)
    train, test = block[:half], block[half:]
    gram = train @ train.T + 300 * np.eye(half)
    weights = np.linalg.solve(gram, dataset.labels[:half] - dataset.labels[:half].mean(axis=0))
    return np.asarray(test @ (train.T @ weights))


def test_learnable_and_better_with_all_views() -> None:
    dataset = load_dataset("multidigits", n_samples=1000, seed=0)
    truth = dataset.labels[500:]
    frequency = np.tile(dataset.labels[:500].mean(axis=0), (500, 1))
    trivial = average_precision(truth, frequency)
    together = average_precision(truth, ridge_scores(dataset, list(dataset.views.names)))
    for name in dataset.views.names:
        alone = average_precision(truth, ridge_scores(dataset, [name]))
        assert trivial + 0.03 < alone < together, name
    assert together < 0.9


def test_bad_size() -> None:
    with pytest.raises(SettingError, match="n_samples"):
        load_dataset("multidigits", n_samples=0)


# ------------------------------------------------------------------------------ descriptions


@pytest.fixture
def canvas() -> NDArray[np.float64]:
    return np.random.default_rng(0).random((3, 20, 20))


def test_profiles_are_sums(canvas: NDArray[np.float64]) -> None:
    found = descriptors.profiles(canvas)
    np.testing.assert_allclose(found[:, :20], canvas.sum(axis=2))
    np.testing.assert_allclose(found[:, 20:40], canvas.sum(axis=1))
    np.testing.assert_allclose(found[:, 40:79].sum(axis=1), canvas.sum(axis=(1, 2)))
    np.testing.assert_allclose(found[:, 79:].sum(axis=1), canvas.sum(axis=(1, 2)))
    np.testing.assert_allclose(found[:, 40 + 19], np.trace(canvas, axis1=1, axis2=2))


def test_fourier_ignores_cyclic_shifts(canvas: NDArray[np.float64]) -> None:
    shifted = np.roll(canvas, (3, 5), axis=(1, 2))
    np.testing.assert_allclose(descriptors.fourier(shifted), descriptors.fourier(canvas))


def test_gradients_find_the_direction_of_an_edge() -> None:
    across = np.tile(np.linspace(0, 1, 20), (1, 20, 1))
    for turns, expected in ((0, 0), (1, 6), (2, 4), (3, 2)):
        found = descriptors.gradients(np.rot90(across, turns, axes=(1, 2)).copy())
        cells = found.reshape(5, 5, 8)[1:-1, 1:-1]
        assert (cells.argmax(axis=-1) == expected).all()


def test_patterns_are_counts_of_all_pixels(canvas: NDArray[np.float64]) -> None:
    found = descriptors.binary_patterns(canvas) ** 2
    parts = found.reshape(3, 5, 59)
    np.testing.assert_allclose(parts.sum(axis=2), [[100, 100, 100, 100, 400]] * 3)
    np.testing.assert_allclose(parts[:, :4].sum(axis=1), parts[:, 4])


def test_moments_turn_with_the_picture(canvas: NDArray[np.float64]) -> None:
    """A quarter turn keeps the moments with m = 0 and the magnitudes of the others."""
    found, turned = (descriptors.moments(c) for c in (canvas, np.rot90(canvas, axes=(1, 2))))
    assert found.shape == (3, 45)
    np.testing.assert_allclose(found[:, 0], canvas.sum(axis=(1, 2)) / 20)
    first = np.hypot(found[:, 1], found[:, 2])
    np.testing.assert_allclose(np.hypot(turned[:, 1], turned[:, 2]), first)
    assert not np.allclose(found, turned)
