"""The generator: sizes, imbalance, signal, reproducibility."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from viewgap.datasets import load_dataset
from viewgap.datasets.sources import PUBLISHED
from viewgap.datasets.synthetic import label_frequencies
from viewgap.errors import SettingError
from viewgap.metrics import average_precision


def test_sizes_and_names() -> None:
    dataset = load_dataset(
        "synthetic", n_samples=90, view_dims={"text": 4, "sound": 7}, n_labels=5, cardinality=1.5
    )
    assert dataset.views.names == ("text", "sound")
    assert dataset.views.dims == (4, 7)
    assert dataset.labels.shape == (90, 5)
    assert dataset.label_names[-1] == "label4"


@pytest.mark.parametrize(("n_labels", "wanted"), [(12, 2.5), (40, 4.7), (3, 1.2)])
def test_cardinality_and_imbalance(n_labels: int, wanted: float) -> None:
    dataset = load_dataset("synthetic", n_samples=2000, n_labels=n_labels, cardinality=wanted)
    frequency = dataset.labels.mean(axis=0)
    assert dataset.statistics()["cardinality"] == pytest.approx(wanted, rel=0.02)
    assert (np.diff(frequency) <= 0).all()
    assert frequency[0] > 1.8 * frequency[-1]
    assert frequency.max() <= 0.6
    assert frequency.min() > 0


def test_frequencies_have_a_ceiling() -> None:
    frequency = label_frequencies(4, 4.0)
    assert frequency.max() == pytest.approx(0.6)
    assert label_frequencies(12, 2.5).sum() == pytest.approx(2.5)


def test_same_seed_same_bits() -> None:
    first, second = (load_dataset("synthetic", seed=5) for _ in range(2))
    other = load_dataset("synthetic", seed=6)
    for name in first.views.names:
        assert first.views.rows(name).tobytes() == second.views.rows(name).tobytes()
    np.testing.assert_array_equal(first.labels, second.labels)
    assert not np.array_equal(first.labels, other.labels)


def least_squares_ap(noise: float, views: slice) -> float:
    dataset = load_dataset("synthetic", n_samples=800, noise=noise)
    names = dataset.views.names[views]
    block = np.hstack([dataset.views.rows(name, dtype=np.float64) for name in names])
    block = np.hstack([block, np.ones((800, 1))])
    weights = np.linalg.lstsq(block[:500], dataset.labels[:500], rcond=None)[0]
    return average_precision(dataset.labels[500:], block[500:] @ weights, "clean")


def test_signal_falls_with_noise_and_with_missing_views() -> None:
    dataset = load_dataset("synthetic", n_samples=800)
    frequency = np.tile(dataset.labels[:500].mean(axis=0), (300, 1))
    trivial = average_precision(dataset.labels[500:], frequency, "clean")
    complete = least_squares_ap(0.5, slice(None))
    assert complete > least_squares_ap(2.0, slice(None)) + 0.05
    assert complete > least_squares_ap(0.5, slice(0, 1)) + 0.05
    assert least_squares_ap(0.5, slice(0, 1)) > trivial + 0.05


@pytest.mark.parametrize(
    "options",
    [
        {"n_samples": 0},
        {"n_labels": 0},
        {"view_dims": ()},
        {"view_dims": (3, 0)},
        {"cardinality": 13},
        {"cardinality": 0},
        {"noise": -1},
        {"noise": float("nan")},
    ],
    ids=str,
)
def test_bad_settings(options: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(options))):
        load_dataset("synthetic", **options)


# ---------------------------------------------------------------------- like a benchmark set


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_like_a_benchmark_set(name: str) -> None:
    published = PUBLISHED[name]
    dataset = load_dataset("synthetic", like=name, n_samples=1500, view_dims=(3, 2))
    assert dataset.name == f"synthetic_{name}"
    assert dataset.labels.shape == (1500, published.c)
    assert dataset.statistics()["cardinality"] == pytest.approx(published.cardinality, rel=0.02)


def test_like_has_the_six_views_in_float32() -> None:
    dataset = load_dataset("synthetic", like="Corel5k", n_samples=20)
    assert dataset.views.dims == (1000, 100, 512, 4096, 4096, 4096)
    assert dataset.views.names[0] == "DenseSift"
    assert dataset.views.rows("Hsv").dtype == np.float32


def test_like_has_the_published_number_of_samples() -> None:
    dataset = load_dataset("synthetic", like="mirflickr", view_dims=(1,))
    assert dataset.statistics()["cardinality"] == pytest.approx(4.716, abs=5e-4)
    assert len(dataset) == 25_000


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load_dataset("synthetic", n_samples=100)
    monkeypatch.setattr("viewgap.datasets.synthetic.CHUNK_VALUES", 200)
    pieces = load_dataset("synthetic", n_samples=100)
    for name in whole.views.names:
        np.testing.assert_allclose(whole.views.rows(name), pieces.views.rows(name), atol=1e-6)
    np.testing.assert_array_equal(whole.labels, pieces.labels)


def test_views_take_little_more_than_their_values() -> None:
    tracemalloc.start()
    try:
        dataset = load_dataset("synthetic", n_samples=2000, view_dims=(3000, 3000, 3000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    values = 4 * 2000 * 9000
    assert dataset.views.shape == (2000, 9000)
    assert peak < values + 60e6, "a whole view in float64 would take 48 MB, thrice"


def test_like_nothing_known() -> None:
    with pytest.raises(SettingError, match=r"like must be one of corel5k, .* found 'imagenet'"):
        load_dataset("synthetic", like="imagenet")
