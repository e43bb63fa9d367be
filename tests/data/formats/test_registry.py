"""A file format is one entry of the registry: everything that reads or lists formats follows it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from viewgap.cli import run
from viewgap.data import read_data, read_views
from viewgap.data.formats import registry
from viewgap.data.formats.base import Format, raw_data
from viewgap.data.formats.options import TableRequest
from viewgap.data.formats.registry import all_formats, format_of, suffixes
from viewgap.errors import DataFileError

LABELS = [[1], [0], [1]]


def read_pairs(path: Path, *, nan: str = "mean", with_labels: bool = True) -> object:
    """Read a made-up format: numbers in two views side by side."""
    values = np.loadtxt(path)
    views = {"left": values[:, :1], "right": values[:, 1:]}
    return raw_data(path, views, LABELS if with_labels else None, ("red",), nan=nan)


def read_lines(path: Path, request: TableRequest) -> pd.DataFrame:
    """Read a made-up table: an id and a number in each line."""
    fields = [line.split() for line in path.read_text().splitlines()]
    values = [[text if request.as_text else float(text)] for _, text in fields]
    return pd.DataFrame(values, index=[name for name, _ in fields], columns=["x"])


PAIRS = Format("pairs", "a file of pairs", (".pairs",), read=read_pairs)  # type: ignore[arg-type]
LINES = Format(
    "lines", "tables", (".lines",), read_table=read_lines, read_columns=lambda _: ["id", "x"]
)


@pytest.fixture
def more_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    both = (*all_formats(), PAIRS, LINES)
    monkeypatch.setattr(registry, "all_formats", lambda: both)


def test_every_suffix_belongs_to_one_format() -> None:
    found = [suffix for one in all_formats() for suffix in one.suffixes]
    assert len(set(found)) == len(found)
    assert all(suffix == suffix.lower() and suffix.startswith(".") for suffix in found)
    for one in all_formats():
        assert sum(map(bool, (one.read, one.read_table, one.read_array))) == 1 + bool(one.is_array)
        assert format_of(Path(f"any{one.suffixes[0].upper()}")) is one


def test_the_help_of_the_command_line_names_every_suffix(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The help is written out, as it must not import the readers."""
    assert run(["fit", "--help"]) == 0
    words = set(re.findall(r"\.\w+(?:\.gz)?", capsys.readouterr().out))
    assert words >= set(suffixes("read", "read_table", "read_array"))


@pytest.mark.usefixtures("more_formats")
def test_a_new_format_with_all_views(tmp_path: Path) -> None:
    file = tmp_path / "data.pairs"
    np.savetxt(file, np.arange(6.0).reshape(3, 2))
    for path in (file, tmp_path):
        raw = read_data(path)
        assert raw.views.names == ("left", "right")
        assert raw.labels is not None
        assert raw.labels.tolist() == LABELS
        assert len(read_views(path)) == 3
    np.savez(tmp_path / "more.npz", a=np.eye(2))
    with pytest.raises(DataFileError, match=r"a file of pairs.*beside an \.npz archive"):
        read_data(tmp_path)


@pytest.mark.usefixtures("more_formats")
def test_a_new_format_of_tables_stands_beside_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.lines").write_text("s1 1.5\ns2 2\n")
    (tmp_path / "b.csv").write_text("id,y\ns2,3\ns1,4\n")
    (tmp_path / "labels.lines").write_text("s1 0\ns2 1\n")
    raw = read_data(tmp_path)
    assert raw.views.rows("a").tolist() == [[1.5], [2]]
    assert raw.views.rows("b").tolist() == [[4], [3]]
    assert raw.labels is not None
    assert raw.labels.tolist() == [[0], [1]]


@pytest.mark.usefixtures("more_formats")
def test_messages_and_the_command_line_know_a_new_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataFileError, match=r"\.zarr or \.pairs file.*\.lines file per view"):
        read_data(tmp_path / "data.unknown")
    assert run(["fit", "absent.pairs", "--out", str(tmp_path / "model")]) == 1
    assert "absent.pairs" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_a_description_agrees_with_what_is_read(tmp_path: Path, suffix: str) -> None:
    h5py = pytest.importorskip("h5py")
    values, labels = np.arange(12.0).reshape(4, 3), np.eye(4, 2)
    path = tmp_path / f"data{suffix}"
    if suffix == ".npz":
        np.savez(path, a=values, b=values[:, :2], labels=labels)
    else:
        with h5py.File(path, "w") as file:
            file["views/a"], file["views/b"], file["labels"] = values, values[:, :2], labels
    file_format = format_of(path)
    assert file_format is not None
    assert file_format.describe is not None
    expected = {"n": 4, "c": 2, "cardinality": 0.5, "views": {"a": 3, "b": 2}}
    assert file_format.describe(path) == expected
    assert read_data(path).views.dims == (3, 2)
