"""Rows beyond a limit go to a temporary file; whoever reads them finds the same values."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from viewgap.data.formats import read_views
from viewgap.data.rows import on_disk
from viewgap.data.rows.on_disk import RowBuffer, joined_blocks
from viewgap.errors import RunError

VALUES = np.random.default_rng(0).normal(size=(500, 4))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_disk, "IN_MEMORY_BYTES", 1000)
    monkeypatch.setattr(on_disk, "_FLUSHED_VALUES", 50)


@pytest.mark.usefixtures("small")
def test_rows_one_by_one_and_in_blocks() -> None:
    buffer = RowBuffer(4)
    for row in VALUES[:100].tolist():
        buffer.append(row)
    buffer.extend(VALUES[100:])
    found = buffer.to_array()
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, VALUES)
    blocks = (VALUES[i : i + 70] for i in range(0, 500, 70))
    joined = joined_blocks((500, 4), np.float64, blocks)
    assert isinstance(joined, np.memmap)
    np.testing.assert_array_equal(joined, VALUES)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_are_the_same_from_a_temporary_file(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = pd.Index([f"s{i}" for i in range(500)], name="id")
    frames = {
        "a": pd.DataFrame(VALUES, index=ids, columns=list("wxyz")).iloc[::-1],
        "b": pd.DataFrame(VALUES[:, :2], index=ids, columns=list("uv")).iloc[50:],
    }
    frames["a"].iloc[3, 1] = np.nan
    for name, frame in frames.items():
        path = tmp_path / f"{name}.{suffix}"
        frame.to_csv(path) if suffix == "csv" else frame.to_parquet(path)
    expected = read_views(tmp_path)
    monkeypatch.setattr(on_disk, "IN_MEMORY_BYTES", 1000)
    found = read_views(tmp_path)
    assert isinstance(found.stored("b").base, np.memmap | np.ndarray)
    assert found.sample_ids.tolist() == expected.sample_ids.tolist()
    np.testing.assert_array_equal(found.observed, expected.observed)
    for name in ("a", "b"):
        np.testing.assert_array_equal(found.rows(name), expected.rows(name))
    turned = found.select_columns("a", [2, 0])
    np.testing.assert_array_equal(turned.rows("a"), expected.rows("a")[:, [2, 0]])


@pytest.mark.usefixtures("small")
def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, data: bytes) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    with pytest.raises(RunError, match="TMPDIR"):
        RowBuffer(4).extend(VALUES)
