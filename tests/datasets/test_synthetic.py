"""The generator: sizes, imbalance, signal, reproducibility."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viewgap.datasets import load_dataset
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
