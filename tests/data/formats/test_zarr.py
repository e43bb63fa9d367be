"""Zarr folders: the same answers as arrays in memory, and nothing from them is trusted."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.cli import run
from viewgap.data.formats import read_data, read_views
from viewgap.data.formats.registry import format_of
from viewgap.data.rows.values import LazyRows
from viewgap.datasets.own_files import fingerprint
from viewgap.errors import DataFileError, ViewgapError, ViewgapWarning

zarr = pytest.importorskip("zarr")

N = 40
RNG = np.random.default_rng(0)
FIRST = RNG.integers(1, 200, size=(N, 3)).astype(np.uint8)
SECOND = RNG.normal(size=(N, 5)).astype(np.float32)
SECOND[4] = np.nan
LABEL = np.column_stack([FIRST[:, 0] > 100, SECOND[:, 0] > 0]).astype(float)


def write(path: Path, form: int = 3, labels: bool = True, **more: Any) -> Path:
    root = zarr.open_group(path, mode="w", zarr_format=form)
    group = root.create_group("views")
    for name, values in (("first", FIRST), ("second", SECOND)):
        options = {"chunks": (7, values.shape[1]), **more}
        stored = group.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype,
            config={"write_empty_chunks": True},
            **options,
        )
        stored[:] = values
    if labels:
        stored = root.create_array(
            "labels", shape=LABEL.shape, dtype="f8", config={"write_empty_chunks": True}
        )
        stored[:] = LABEL
    return path


@pytest.mark.parametrize(
    ("form", "more"),
    [(2, {}), (3, {}), (3, {"chunks": (4, 1)}), (3, {"compressors": None})],
)
def test_views_and_labels(tmp_path: Path, form: int, more: dict[str, Any]) -> None:
    raw = read_data(write(tmp_path / "data.zarr", form, **more))
    assert raw.views.names == ("first", "second")
    assert isinstance(raw.views.stored("first"), LazyRows)
    assert raw.views.is_on_disk("first")
    np.testing.assert_array_equal(raw.views.stored("first"), FIRST)
    np.testing.assert_array_equal(raw.views.stored("second"), SECOND)
    np.testing.assert_array_equal(raw.views.stored("second")[[30, 2, 2, 8]], SECOND[[30, 2, 2, 8]])
    assert raw.views.observed.sum() == 2 * N - 1
    np.testing.assert_array_equal(raw.labels, LABEL)  # type: ignore[arg-type]


def test_shards(tmp_path: Path) -> None:
    path = tmp_path / "data.zarr"
    group = zarr.open_group(path, mode="w").create_group("views")
    stored = group.create_array("a", shape=(N, 5), chunks=(5, 5), shards=(10, 5), dtype="f4")
    stored[:] = SECOND
    np.testing.assert_array_equal(read_data(path).views.stored("a"), SECOND)


def test_in_a_folder_of_its_own_and_from_the_command_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    path = write(data / "set.zarr")
    assert read_data(data).views.names == ("first", "second")
    assert read_views(path).names == ("first", "second")
    model, out = str(tmp_path / "model"), str(tmp_path / "predictions.csv")
    assert run(["fit", str(path), "--method", "late_fusion_ridge", "--out", model]) == 0
    assert run(["predict", model, str(path), "--out", out]) == 0
    assert len(Path(out).read_text().splitlines()) == N + 1
    before = fingerprint(str(path))
    zarr.open_group(path, mode="a")["views/first"][0, 0] = 7
    assert fingerprint(str(path)) != before


def test_a_description_agrees_with_what_is_read(tmp_path: Path) -> None:
    file_format: Any = format_of(write(tmp_path / "data.zarr"))
    found = file_format.describe(tmp_path / "data.zarr")
    assert (found["n"], found["c"], found["views"]) == (N, 2, {"first": 3, "second": 5})


# ---------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("form", "change"),
    [
        (2, {"filters": [{"id": "pickle"}]}),
        (2, {"compressor": {"id": "pickle"}}),
        (3, {"codecs": [{"name": "numcodecs.pickle", "configuration": {}}]}),
    ],
)
def test_pickle_is_no_codec(tmp_path: Path, form: int, change: dict[str, Any]) -> None:
    """Refused before a byte of a chunk is read; whether by zarr itself or by the list."""
    path = write(tmp_path / "data.zarr", form)
    described = path / "views" / "first" / (".zarray" if form == 2 else "zarr.json")
    described.write_text(json.dumps(json.loads(described.read_text()) | change))
    with pytest.raises(DataFileError, match="pickle"):
        read_data(path)


def test_other_codecs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "data.zarr")
    monkeypatch.setattr("viewgap.data.formats.zarr.CODECS", frozenset(("bytes",)))
    with pytest.raises(DataFileError, match="codec 'zstd', which is not read; write it with one"):
        read_data(path)


def test_a_chunk_that_is_absent(tmp_path: Path) -> None:
    path = write(tmp_path / "data.zarr")
    (path / "views" / "first" / "c" / "2" / "0").unlink()
    with pytest.raises(DataFileError, match="1 of 6 chunks of views/first are absent"):
        read_data(path)


def test_rows_that_were_never_written_are_missing_where_the_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "data.zarr"
    group = zarr.open_group(path, mode="w").create_group("views")
    for name, rows in (("a", N), ("b", 20)):
        stored = group.create_array(
            name, shape=(N, 5), chunks=(10, 5), dtype="f4", fill_value=np.nan
        )
        stored[:rows] = np.nan_to_num(SECOND)[:rows]
    assert read_data(path).views.observed.sum(axis=0).tolist() == [N, 20]


def test_a_damaged_chunk_names_view_and_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "data.zarr")
    views = read_data(path).views
    (path / "views" / "first" / "c" / "0" / "0").write_bytes(b"nothing of use")
    with pytest.raises(DataFileError, match=r"data\.zarr: the file is damaged"):
        views.rows("first")


def test_links_are_not_followed(tmp_path: Path) -> None:
    path = write(tmp_path / "data.zarr")
    chunk = path / "views" / "first" / "c" / "0" / "0"
    moved = tmp_path / "elsewhere"
    chunk.rename(moved)
    chunk.symlink_to(moved)
    with pytest.raises(DataFileError, match="a link inside of a Zarr folder"):
        read_data(path)


def test_what_is_no_such_folder(tmp_path: Path) -> None:
    empty = tmp_path / "empty.zarr"
    empty.mkdir()
    with pytest.raises(DataFileError, match=r"expected a group 'views'.*found: nothing"):
        read_data(empty)
    (empty / "views" / "a").mkdir(parents=True)
    with pytest.raises(DataFileError, match="views/a is no array"):
        read_data(empty)
    file = tmp_path / "file.zarr"
    file.write_text("x")
    with pytest.raises(DataFileError, match="expected a Zarr folder, found a file"):
        read_data(file)
    with pytest.raises(DataFileError, match="does not exist"):
        read_data(tmp_path / "absent.zarr")


def test_chunks_and_labels_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "data.zarr")
    monkeypatch.setenv("VIEWGAP_MAX_FILE_BYTES", "100")
    with pytest.raises(DataFileError, match="more than the limit of 100"):
        read_data(path)


def test_no_warnings(tmp_path: Path) -> None:
    path = write(tmp_path / "data.zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_data(path)


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zarr")
    zarr.open_group(path, mode="a").create_array("ids", data=np.arange(N))
    with pytest.warns(ViewgapWarning, match="not read: ids"):
        read_data(path)


TEXTS = np.dtypes.StringDType() if hasattr(np.dtypes, "StringDType") else "U4"


@pytest.mark.filterwarnings("ignore::UserWarning")  # of zarr: texts of one length are no standard
@pytest.mark.parametrize("form", [2, 3])
@pytest.mark.parametrize("dtype", ["U4", TEXTS])
def test_ids_and_names_of_labels(tmp_path: Path, form: int, dtype: Any) -> None:
    path = write(tmp_path / "a.zarr", form)
    root = zarr.open_group(path, mode="a")
    ids = [f"s{row}" for row in range(N)]
    root.create_array("sample_ids", data=np.array(ids, dtype=dtype))
    root.create_array("label_names", data=np.array(["red", "big"], dtype=dtype))
    raw = read_data(path)
    assert raw.views.sample_ids.tolist() == ids
    assert raw.label_names == ("red", "big")
    assert raw.views.has_ids


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("sample_ids", np.arange(N - 1), f"expected {N} ids"),
        ("sample_ids", np.zeros(N, dtype=int), "must be unique"),
        ("sample_ids", np.arange(N) + 0.5, "must be text or whole numbers"),
        ("sample_ids", np.arange(2 * N).reshape(N, 2), "sample_ids must be one row"),
        ("sample_ids", np.arange(N) > 2, "must hold text or whole numbers, found dtype bool"),
        ("label_names", np.arange(3), "3 label names for 2 labels"),
    ],
)
def test_ids_and_names_that_do_not_fit(
    tmp_path: Path, name: str, values: Any, message: str
) -> None:
    path = write(tmp_path / "a.zarr")
    stored = zarr.open_group(path, mode="a").create_array(
        name, shape=values.shape, dtype=values.dtype, config={"write_empty_chunks": True}
    )
    stored[:] = values
    with pytest.raises(ViewgapError, match=message):
        read_data(path)
