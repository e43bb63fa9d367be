"""AnnData and MuData files: absent samples, kinds of columns, and files that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from viewgap.data.formats import RawData, read_data
from viewgap.data.formats.base import LIMIT_VARIABLE
from viewgap.data.rows.values import LazyRows
from viewgap.errors import DataFileError, LabelError, ViewError, ViewgapError, ViewgapWarning
from written_data import (
    WRITERS,
    put_anndata,
    put_array,
    put_categories,
    put_frame,
    put_group,
    small_cll,
)

h5py = pytest.importorskip("h5py")
DATA = small_cll()


@pytest.fixture
def h5mu(tmp_path: Path) -> Path:
    return WRITERS["h5mu"](tmp_path, DATA).path


@pytest.fixture
def h5ad(tmp_path: Path) -> Path:
    return WRITERS["h5ad"](tmp_path, DATA).path


def read(path: Path, **options: Any) -> RawData:
    return read_data(path, label_columns="trisomy12", **options)


def test_dense_values_stay_in_the_file(h5mu: Path) -> None:
    views = read(h5mu).views
    assert isinstance(views.stored("drugs"), LazyRows)
    assert views.is_sparse("methylation")
    absent = ~views.observed[:, views.names.index("mrna")]
    assert absent.any()
    assert not views.rows("mrna")[absent].any()


def test_a_backed_view_with_absent_rows_is_read_by_rows(tmp_path: Path) -> None:
    frame = DATA.views["mrna"]  # not every sample
    with h5py.File(tmp_path / "a.h5mu", "w") as file:
        ids = list(DATA.labels.index)
        obs = put_frame(file, "obs", ids, ["y"])
        put_array(obs, "y", np.arange(len(ids)) % 2)
        put_anndata(file.create_group("mod/mrna"), frame)
        put_anndata(file.create_group("mod/drugs"), DATA.views["drugs"])
    views = read_data(tmp_path / "a.h5mu", label_columns="y").views
    stored = views.stored("mrna")
    assert isinstance(stored, LazyRows)
    expected = frame.reindex(ids).to_numpy()
    for rows in ([5, 0, 5], slice(None), [-1], np.arange(len(ids)) % 3 == 0):
        wanted = np.nan_to_num(expected[rows])
        present = views.observed[rows, views.names.index("mrna")]
        found = np.nan_to_num(views.rows("mrna", rows, dtype=np.float64))
        np.testing.assert_array_equal(found, np.where(present[:, None], wanted, 0))
    chosen = views.select_columns("mrna", [2, 0]).rows("mrna", [0, 1], dtype=np.float64)
    both = views.observed[:2, views.names.index("mrna")]
    np.testing.assert_array_equal(chosen[both], expected[:2][both][:, [2, 0]])


def test_labels_by_place(h5mu: Path) -> None:
    with h5py.File(h5mu, "a") as file:
        own = file["mod/methylation/obs"]
        put_array(own, "status", np.ones(len(own["_index"])))
        put_array(put_group(file, "obsm", "dict"), "tags", np.eye(len(DATA.labels), 2))
    with pytest.warns(ViewgapWarning, match=r"no labels are read.*IGHV, trisomy12"):
        assert read_data(h5mu).labels is None
    raw = read_data(h5mu, label_columns=["mod/methylation/obs/status", "obsm/tags"])
    assert raw.label_names == ("tags0", "tags1", "status")
    assert raw.labels is not None
    observed = raw.views.observed[:, raw.views.names.index("methylation")]
    assert np.array_equal(~np.isnan(raw.labels[:, 2]), observed)


def test_a_column_of_lists_as_categories(h5ad: Path) -> None:
    n = len(DATA.labels)
    with h5py.File(h5ad, "a") as file:
        put_categories(file["obs"], "tags", ["a;b", None, "b", *["[]"] * (n - 3)])
    views = {"drugs": "X"}
    raw = read_data(h5ad, views=views, label_columns="tags", label_separator=";")
    assert raw.labels is not None
    np.testing.assert_array_equal(raw.labels[:3], [[1, 1], [np.nan, np.nan], [0, 1]])


def test_matrices_that_are_not_read_are_named(h5ad: Path) -> None:
    with pytest.warns(ViewgapWarning, match=r"only view is X; obsm/methylation, obsm/mrna"):
        assert read_data(h5ad).views.names == ("X",)


def test_categories_as_before_anndata_0_8(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        put_anndata(file, DATA.views["drugs"])
        codes = np.arange(len(DATA.labels)) % 3 - 1
        put_array(file["obs"], "sex", codes.astype(np.int8))
        put_array(put_group(file["obs"], "__categories", "dict"), "sex", ["no", "yes"])
    with pytest.warns(ViewgapWarning, match="read 'no' as 0|read 'yes' as 1"):
        raw = read_data(tmp_path / "a.h5ad", label_columns="sex")
    np.testing.assert_array_equal(raw.labels[:3, 0], [np.nan, 0, 1])  # type: ignore[index]


# ---------------------------------------------------------------------- refused


def _axis(file: Any) -> None:
    file.attrs["axis"] = 1


def _map(file: Any) -> None:
    file["obsmap/mrna"][3] = 1 - min(1, file["obsmap/mrna"][3])


def _short_map(file: Any) -> None:
    del file["obsmap/mrna"]
    file["obsmap/mrna"] = [1, 2]


def _no_modality(file: Any) -> None:
    del file["mod"]


def _duplicates(file: Any) -> None:
    index = file["mod/mrna/obs/_index"]
    index[1] = index[0]


def _stranger(file: Any) -> None:
    del file["obsmap"]
    file["mod/mrna/obs/_index"][0] = "X999"


def _too_few_names(file: Any) -> None:
    del file["mod/mrna/var/_index"]
    put_array(file["mod/mrna/var"], "_index", ["a"])


def _bad_indices(file: Any) -> None:
    file["mod/methylation/X/indices"][0] = 10_000


def _bad_codes(file: Any) -> None:
    file["obs/IGHV/codes"][0] = 100


def _external(file: Any) -> None:
    del file["mod/drugs/X"]
    file["mod/drugs/X"] = h5py.ExternalLink("/etc/passwd", "/")


def _old_obs(file: Any) -> None:
    del file["obs"]
    file["obs"] = np.zeros(3, dtype=[("index", "S3"), ("a", "f8")])


def _bomb(file: Any) -> None:
    del file["mod/drugs/X"]
    shape = (len(DATA.views["drugs"]), 2**40)
    file["mod/drugs"].create_dataset("X", shape, dtype="f4", chunks=(1, 2**20))


def _sparse_bomb(file: Any) -> None:
    file["mod/methylation/X"].attrs["shape"] = (len(DATA.views["methylation"]), 2**40)


def _text_matrix(file: Any) -> None:
    del file["mod/drugs/X"]
    put_array(file["mod/drugs"], "X", [["a"] * 4] * len(DATA.views["drugs"]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_axis, r"share variables, not samples \(axis 1\)"),
        (_map, "obsmap/mrna does not agree with the sample ids.*first for 'H003'"),
        (_short_map, "obsmap/mrna does not agree"),
        (_no_modality, "expected modalities below 'mod'"),
        (_duplicates, r"mod/mrna/obs: sample ids must be unique, found 'H\d+'"),
        (_stranger, r"view 'mrna': 1 samples are not among sample_ids \(first: 'X999'\)"),
        (_too_few_names, "view 'mrna': .* 1 column names for a matrix of shape"),
        (_bad_indices, "damaged"),
        (_bad_codes, "damaged.*codes of categories"),
        (_external, "damaged.*leads elsewhere"),
        (_old_obs, "before anndata 0.7"),
        (_bomb, LIMIT_VARIABLE),
        (_sparse_bomb, LIMIT_VARIABLE),
        (_text_matrix, "view 'drugs'"),
    ],
)
def test_files_that_are_refused(h5mu: Path, change: Callable[[Any], None], message: str) -> None:
    with h5py.File(h5mu, "a") as file:
        change(file)
    with pytest.raises((DataFileError, ViewError), match=message) as caught:
        read_data(h5mu, label_columns="obs/IGHV")
    assert h5mu.name in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"views": {"a": "obsm/absent"}}, r"nothing is stored at 'obsm/absent'"),
        ({"views": {"a": "uns/x"}}, "no place of a matrix"),
        ({"views": {"a": ["X", "obsm/mrna"]}}, "expected the place of one matrix"),
        ({"views": {"a": "obsm"}}, "is no matrix but dict"),
        ({"views": {"a": "X"}, "label_columns": "absent"}, "no column is named 'obs/absent'"),
    ],
)
def test_places_that_are_refused(h5ad: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        read_data(h5ad, **options)


def test_classes_are_refused_with_what_to_do(h5ad: Path) -> None:
    with h5py.File(h5ad, "a") as file:
        put_categories(file["obs"], "type", list("abc") * (len(DATA.labels) // 3))
    with pytest.raises(LabelError, match=r"label 'type': found 'a'.*one column of 0 and 1 each"):
        read_data(h5ad, views={"drugs": "X"}, label_columns="type")


def test_truncated_files(h5mu: Path) -> None:
    content = h5mu.read_bytes()
    for share in range(8):
        h5mu.write_bytes(content[: len(content) * share // 8])
        with pytest.raises(ViewgapError, match="damaged"):
            read_data(h5mu, label_columns="obs/trisomy12")


def test_columns_with_a_slash_and_columns_that_are_not_there(tmp_path: Path) -> None:
    """AnnData stores the column `IRAK1/4` as 4 in a group IRAK1; no column is left out unsaid."""
    names = ["IRAK1/4 low", "ibrutinib", "IRAK1/4 high"]
    values = np.arange(9.0).reshape(3, 3)
    path = tmp_path / "slash.h5ad"
    ids = ["P1", "P2", "P3"]
    with h5py.File(path, "w") as file:
        put_anndata(file, pd.DataFrame(values, ids, ["a", "b", "c"]))
        drugs = put_frame(put_group(file, "obsm", "dict"), "drugs", ids, names)
        for name, column in zip(names, values.T, strict=True):
            put_array(drugs, name, column)
    views = read_data(path, views={"drugs": "obsm/drugs"}).views
    assert views.feature_names["drugs"] == tuple(names)
    assert np.array_equal(views.rows("drugs"), values)
    with h5py.File(path, "a") as file:
        del file["obsm/drugs/IRAK1/4 high"]
    with pytest.raises(DataFileError, match="not all there; absent: IRAK1/4 high"):
        read_data(path, views={"drugs": "obsm/drugs"})


def test_a_warning_that_was_made_an_error_is_no_damage(h5mu: Path) -> None:
    with pytest.raises(ViewgapWarning, match="yes"):  # the settings of the tests make it one
        read_data(h5mu, label_columns="IGHV")
