"""The tables against pandas, in blocks of a few rows, whatever a view is stored as."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import viewgap
from viewgap.data.rows import values as values_module
from viewgap.data.viewset import ViewSet
from viewgap.inspection import columns as columns_module
from viewgap.inspection.columns import read_columns
from viewgap.inspection.hashing import groups_of_equal, mixed

N, D = 90, 7


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_module, "CHUNK_BYTES", 8 * D * 13)  # 13 rows at a time


def values_with_gaps() -> np.ndarray:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(N, D)) * 10.0 ** np.arange(D) + 5
    values[rng.random((N, D)) < 0.1] = np.nan
    values[:, 3] = 2.0
    values[10:20] = np.nan
    return values


def as_stored(values: np.ndarray, kind: str, folder: Path) -> Any:
    if kind == "sparse":
        return sparse.csr_array(values)
    if kind == "float32":
        return values.astype(np.float32)
    if kind == "hdf5":
        with h5py.File(folder / "view.h5", "w") as file:
            file["view"] = values
        return h5py.File(folder / "view.h5", "r")["view"]
    return values


@pytest.mark.parametrize("kind", ["float64", "float32", "sparse", "hdf5"])
def test_columns_are_those_of_pandas(kind: str, tmp_path: Path) -> None:
    values = values_with_gaps()
    frame = pd.DataFrame(values)
    columns = viewgap.inspect({"a": as_stored(values, kind, tmp_path), "b": values + 1}).columns
    own = columns[columns["view"] == "a"]
    exact = kind != "float32"
    for name, truth in {
        "values": frame.count(),
        "missing": N - 10 - frame.count(),
        "mean": frame.mean(),
        "std": frame.std(ddof=0),
        "smallest": frame.min(),
        "largest": frame.max(),
    }.items():
        assert own[name].to_numpy() == pytest.approx(
            truth.to_numpy(), rel=1e-9 if exact else 1e-5, abs=1e-9
        ), name
    assert own["median"].to_numpy() == pytest.approx(frame.median().to_numpy(), rel=1e-5)
    assert own["constant"].tolist() == (frame.nunique() == 1).tolist()


def test_robust_scale_and_rows_of_the_ends() -> None:
    frame = pd.DataFrame(values_with_gaps())
    columns = read_columns(ViewSet({"a": frame.to_numpy()}), "a")
    truth = 1.4826 * (frame - frame.median()).abs().median()
    varies = frame.nunique() > 1
    assert columns.scale[varies] == pytest.approx(truth[varies].to_numpy(), rel=1e-4)
    assert columns.low_row.tolist() == frame.idxmin().tolist()
    assert columns.high_row.tolist() == frame.idxmax().tolist()


def test_hashes_tell_equal_from_different(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).integers(0, 3, size=(N, D)).astype(float)
    values[:, 5] = values[:, 1]
    values[7] = values[80]
    views = ViewSet({"a": values})
    columns = read_columns(views, "a")
    assert columns.duplicate_of.tolist() == [-1] * 5 + [1, -1]
    same = groups_of_equal(columns.row_hash)
    truth = pd.DataFrame(values).groupby(list(range(D))).ngroup()
    assert len(np.unique(same)) == truth.nunique()
    monkeypatch.setattr(values_module, "CHUNK_BYTES", 2**20)
    assert (read_columns(views, "a").hashes == columns.hashes).all()
    assert mixed(np.array([0.0, -0.0])).tolist() == [0, 0]
    assert len(set(mixed(np.array([1.0, 2.0, np.nan, -np.nan])).tolist())) == 3


def test_patterns_pairs_labels_and_samples() -> None:
    rng = np.random.default_rng(3)
    observed = rng.random((N, 3)) < 0.6
    views = ViewSet({name: rng.normal(size=(N, 2)) for name in "abc"}, observed)
    labels = pd.DataFrame((rng.random((N, 4)) < 0.3).astype(float)).mask(rng.random((N, 4)) < 0.2)
    result = viewgap.inspect(views, labels.to_numpy())

    truth = pd.DataFrame(observed, columns=list("abc")).value_counts()
    found = {
        tuple(view in own for view in "abc"): count
        for own, count in zip(result.patterns["views"], result.patterns["samples"], strict=True)
    }
    assert found == truth.to_dict()
    assert result.patterns["samples"].is_monotonic_decreasing
    for line in result.pairs.itertuples():
        i, j = "abc".index(line.view), "abc".index(line.other)
        assert line.samples == (observed[:, i] & observed[:, j]).sum()
        assert line.share_of_either == line.samples / (observed[:, i] | observed[:, j]).sum()
    assert result.labels["positives"].tolist() == (labels == 1).sum().tolist()
    assert result.labels["negatives"].tolist() == (labels == 0).sum().tolist()
    assert result.labels["unknown"].tolist() == labels.isna().sum().tolist()
    assert result.labels["frequency"].to_numpy() == pytest.approx(labels.mean().to_numpy())
    counts = dict(zip(result.samples["what"], result.samples["samples"], strict=True))
    assert counts["with every view"] == observed.all(axis=1).sum()
    assert counts["without any view"] == (~observed.any(axis=1)).sum()
    known = labels.notna().any(axis=1)
    assert counts["without any known label"] == (~known).sum()
    assert counts["without a positive label"] == (known & ~(labels == 1).any(axis=1)).sum()


def test_views_are_described() -> None:
    rng = np.random.default_rng(4)
    views = {
        "flags": (rng.random((N, 3)) < 0.5).astype(int),
        "counts": rng.poisson(3, size=(N, 2)),
        "whole": rng.integers(-5, 5, size=(N, 2)),
        "real": rng.normal(size=(N, 2)) * [1.0, 100.0],
        "nothing": None,
    }
    table = viewgap.inspect(views).views.set_index("view")
    assert table["kind"].tolist() == [
        "0 and 1",
        "counts",
        "whole numbers",
        "real numbers",
        "nothing",
    ]
    assert table["columns"].tolist() == [3, 2, 2, 2, 0]
    assert table.loc["real", "scale_ratio"] == pytest.approx(
        views["real"].std(axis=0).max() / views["real"].std(axis=0).min()
    )


def test_outliers_are_ranked_by_robust_z() -> None:
    values = np.random.default_rng(5).normal(size=(N, 4))
    values[17, 2], values[30, 1] = 1e4, -50.0
    table = viewgap.inspect({"a": values, "b": values[:, :1] * 2 + 1}).outliers
    assert table["sample"].tolist()[:2] == ["17", "30"]
    assert table["column"].tolist()[:2] == ["2", "1"]
    median = np.median(values[:, 2])
    scale = 1.4826 * np.median(np.abs(values[:, 2] - median))
    assert table["robust_z"][0] == pytest.approx((1e4 - median) / scale, rel=1e-4)


def test_indicators_that_agree_are_no_duplicates() -> None:
    rng = np.random.default_rng(7)
    observed = np.ones((N, 2), dtype=bool)
    observed[:30, 1] = False
    values = rng.normal(size=(N, 2))
    values[80], sites = values[50], (np.arange(N)[:, None] % 3 == np.arange(3)).astype(int)
    sites[80] = sites[50]
    result = viewgap.inspect(ViewSet({"site": sites, "values": values}, observed))
    assert result.duplicates["sample"].tolist() == ["50", "80"]


def test_blocks_keep_memory_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n, d = 20_000, 40
    monkeypatch.setattr(values_module, "CHUNK_BYTES", 2**17)
    monkeypatch.setattr(columns_module, "SAMPLE_VALUES", 2**14)
    file = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.float32, (n, d))
    file[:] = np.random.default_rng(8).normal(size=(n, d))
    views = ViewSet({"a": file})
    tracemalloc.start()
    read_columns(views, "a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * d * 4 / 2  # half of the file; hashes and row numbers take 8 bytes a row each


def test_no_samples_at_all() -> None:
    views = ViewSet({"a": np.ones((3, 2)), "b": np.ones((3, 1))})[:0]
    assert viewgap.inspect(views).summary.startswith("0 samples, 2 views")


def test_common_values_do_not_make_the_others_remote() -> None:
    counts = np.zeros((N, 2))
    counts[:40, 0] = np.arange(40) % 7 + 1  # more than half are 0
    counts[3, 1] = 1.0  # an indicator
    result = viewgap.inspect({"a": counts, "b": np.random.default_rng(6).normal(size=(N, 2))})
    assert not [own for own in result.findings if own.kind == "outliers"]
    assert not (result.outliers["view"] == "a").any()
