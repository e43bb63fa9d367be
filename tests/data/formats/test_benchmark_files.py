"""The real files of the field, where VIEWGAP_DATA tells where they lie."""

from pathlib import Path

import numpy as np
import pytest

from viewgap.data.formats import RawData, read_data, read_fold_file
from viewgap.data.splits import Fold
from viewgap.data.splits.splits import split_sizes

FOLDS = "corel5k_six_view_MaskRatios_0.5_LabelMaskRatio_0.5_TraindataRatio_0.7.mat"


@pytest.fixture(scope="module")
def corel5k(benchmark_data: Path) -> RawData:
    folder = benchmark_data / "corel5k"
    if not folder.is_dir():
        pytest.skip("no corel5k in VIEWGAP_DATA")
    return read_data(folder)


@pytest.fixture(scope="module")
def folds(benchmark_data: Path, corel5k: RawData) -> list[Fold]:
    assert corel5k.labels is not None
    return read_fold_file(benchmark_data / "corel5k" / FOLDS, corel5k.labels)


def test_corel5k(corel5k: RawData) -> None:
    views = corel5k.views
    assert views.names == ("DenseSift", "DenseHue", "Gist", "Rgb", "Lab", "Hsv")
    assert views.dims == (1000, 100, 512, 4096, 4096, 4096)
    assert len(views) == 4999
    assert views.observed.all()
    assert corel5k.labels is not None
    assert corel5k.labels.shape == (4999, 260)
    assert corel5k.labels.sum(axis=1).mean() == pytest.approx(3.396, abs=5e-4)
    assert corel5k.label_names[:3] == ("city", "mountain", "sky")
    # Kept as small as they are stored, and rows lie together.
    assert [views.stored(name).dtype.itemsize for name in views.names] == [2, 2, 4, 4, 4, 4]
    assert all(views.stored(name).flags.c_contiguous for name in views.names)


def test_corel5k_folds(corel5k: RawData, folds: list[Fold]) -> None:
    assert len(folds) == 10
    assert corel5k.labels is not None
    for fold in folds:
        assert (len(fold.train), len(fold.validation), len(fold.test)) == (3500, 750, 749)
        assert (len(fold.train), len(fold.validation), len(fold.test)) == split_sizes(4999)
        assert ((~fold.view_mask).sum(axis=0) == 2499).all()
        assert fold.view_mask.any(axis=1).all()
        outside = np.setdiff1d(np.arange(4999), fold.train)
        assert not fold.label_mask[outside].any()
        positives = corel5k.labels[fold.train].sum(axis=0)
        kept = (fold.label_mask[fold.train] & (corel5k.labels[fold.train] == 1)).sum(axis=0)
        assert np.array_equal(kept, np.ceil(positives / 2))


def test_corel5k_split(corel5k: RawData, folds: list[Fold]) -> None:
    split = folds[0].split(corel5k.views, corel5k.labels)
    train, labels = split.train
    assert 0.49 < 1 - train.observed.mean() < 0.51
    assert 0.49 < np.isnan(labels).mean() < 0.51
    assert not np.isnan(split.test[1]).any()
    row = int(folds[0].train[7])
    for j, name in enumerate(train.names):
        expected = corel5k.views.stored(name)[row] * folds[0].view_mask[row, j]
        assert np.array_equal(train.rows(name, [7])[0], expected.astype(np.float32))


def test_three_sources(benchmark_data: Path) -> None:
    if not (benchmark_data / "3sources").is_dir():
        pytest.skip("no 3sources in VIEWGAP_DATA")
    raw = read_data(benchmark_data / "3sources")
    assert raw.views.names == ("bbc", "guardian", "reuters")
    assert raw.views.dims == (3560, 3631, 3068)
    assert raw.views.stored("bbc").dtype == np.uint16
    assert np.bincount(raw.views.observed.sum(axis=1)).tolist() == [0, 53, 194, 169]
    assert raw.labels is not None
    assert raw.labels.sum(axis=1).mean() == pytest.approx(1.123, abs=5e-4)


def test_emotions(benchmark_data: Path) -> None:
    if not (benchmark_data / "emotions").is_dir():
        pytest.skip("no emotions in VIEWGAP_DATA")
    raw = read_data(benchmark_data / "emotions")
    assert raw.views.dims == (8, 64)
    assert raw.labels is not None
    assert raw.labels.shape == (593, 6)
    assert raw.labels.sum(axis=1).mean() == pytest.approx(1.868, abs=5e-4)
