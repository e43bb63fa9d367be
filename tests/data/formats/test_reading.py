"""Readers of the field's .mat layout, .npz archives and table folders."""

import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
from scipy import sparse

from data_files import cell
from viewgap.data.formats import (
    read_data,
    read_fold_file,
    read_npz,
    read_six_view,
    read_table_folder,
)
from viewgap.data.splits.splits import split_sizes
from viewgap.errors import DataFileError, LabelError, ViewError, ViewgapWarning

N = 20
RNG = np.random.default_rng(0)
FIRST = RNG.integers(0, 200, size=(N, 3)).astype(np.uint8)
SECOND = RNG.normal(size=(N, 5)).astype(np.float32)
LABEL = RNG.integers(0, 2, size=(N, 4))
LABEL[0], LABEL[1] = 0, 1


def check(raw: Any, names: tuple[str, ...] = ("view0", "view1")) -> None:
    assert raw.views.names == names
    assert raw.views.shape == (N, 8)
    assert np.array_equal(raw.views.stored(names[0]), FIRST)
    assert np.array_equal(raw.views.stored(names[1]), SECOND)
    assert raw.views.stored(names[0]).dtype == np.uint8
    assert raw.views.stored(names[1]).dtype == np.float32
    assert raw.views.stored(names[1]).flags.c_contiguous
    assert raw.labels.dtype == np.float64
    assert np.array_equal(raw.labels, LABEL)


@pytest.mark.parametrize("turn_views", [False, True])
@pytest.mark.parametrize("turn_label", [False, True])
@pytest.mark.parametrize("minus_one", [False, True])
def test_v5_layouts(tmp_path: Path, turn_views: bool, turn_label: bool, minus_one: bool) -> None:
    label = 2 * LABEL.astype(float) - 1 if minus_one else LABEL.astype(np.uint8)
    path = tmp_path / "tiny_six_view.mat"
    views = [view.T if turn_views else view for view in (FIRST, SECOND)]
    scipy.io.savemat(path, {"X": cell(*views), "label": label.T if turn_label else label})
    check(read_six_view(path))
    check(read_data(path))
    check(read_data(tmp_path))


def test_v5_names_and_sparse(tmp_path: Path) -> None:
    path = tmp_path / "tiny_six_view.mat"
    contents = {
        "X": cell(sparse.csc_matrix(FIRST.T.astype(float)), SECOND),
        "label": sparse.csc_matrix(LABEL.astype(float)),
        "view_names": cell("Hue", "Sift"),
        "label_names": np.array(["sky", "sea", "cat", "dog"]),
    }
    scipy.io.savemat(path, contents, do_compression=True)
    raw = read_six_view(path)
    assert raw.views.names == ("Hue", "Sift")
    assert raw.label_names == ("sky", "sea", "cat", "dog")
    assert np.array_equal(raw.views.stored("Hue").toarray(), FIRST)
    assert np.array_equal(raw.labels, LABEL)  # type: ignore[arg-type]


def test_v73(tmp_path: Path) -> None:
    path = tmp_path / "tiny_six_view.mat"
    cells: dict[str, list[Any]] = {"X": [FIRST.T, SECOND], "view_names": ["Hue", "Sift"]}
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, items in cells.items():
            held = file.create_dataset(name, (2, 1), dtype=h5py.ref_dtype)
            for i, item in enumerate(items):
                text = isinstance(item, str)
                data = np.array([[ord(c)] for c in item], "u2") if isinstance(item, str) else item.T
                made = file.create_dataset(f"#refs#/{name}{i}", data=data)
                made.attrs["MATLAB_class"] = np.bytes_("char" if text else "double")
                held[i, 0] = made.ref
        file["label"] = LABEL  # in HDF5 order: MATLAB sees labels x samples
    check(read_six_view(path), ("Hue", "Sift"))


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"X": cell(FIRST, SECOND)}, "expected the variable 'label'"),
        ({"X": FIRST, "label": LABEL}, "X to be a cell"),
        ({"X": cell(FIRST, "text"), "label": LABEL}, "matrices of numbers"),
        ({"X": cell(FIRST, SECOND[:7]), "label": LABEL}, "no size in common"),
        ({"X": cell(FIRST), "label": LABEL * 3}, r"labels must be 0 and 1.*3\.0"),
        ({"X": cell(FIRST), "label": LABEL, "view_names": cell("a", "b")}, "2 view names for 1"),
    ],
)
def test_other_layouts_are_refused(tmp_path: Path, contents: Any, message: str) -> None:
    path = tmp_path / "tiny_six_view.mat"
    scipy.io.savemat(path, contents)
    with pytest.raises(DataFileError, match=message) as caught:
        read_six_view(path)
    assert str(path) in str(caught.value)


def test_broken_values_name_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "tiny_six_view.mat"
    broken = SECOND.copy()
    broken[3, 2] = np.nan
    scipy.io.savemat(path, {"X": cell(FIRST, broken), "label": LABEL})
    with pytest.raises(
        ViewError, match=r"tiny_six_view\.mat: view 'view1': 1 NaN .* row id 3, column 2"
    ):
        read_six_view(path, nan="error")
    assert read_data(path).views.n_missing_values == {"view0": 0, "view1": 1}
    assert not read_data(path, nan="missing_view").views.observed[3, 1]


# ---------------------------------------------------------------------- fold files


def fold_file(folder: Path, share: str = "0.7", **changes: Any) -> Path:
    rng = np.random.default_rng(1)
    orders = [rng.permutation(N) for _ in range(3)]
    masks = [rng.integers(0, 2, size=(N, 2)).astype(np.uint8) for _ in range(3)]
    kept = [rng.integers(0, 2, size=(N, 4)).astype(np.uint8) for _ in range(3)]
    contents = {
        "folds_data": cell(*masks),
        "folds_label": cell(*kept),
        "folds_sample_index": cell(*[order[None] + 1 for order in orders]),
    }
    path = folder / f"tiny_six_view_MaskRatios_0.5_LabelMaskRatio_0.5_TraindataRatio_{share}.mat"
    scipy.io.savemat(path, contents | changes)
    return path


@pytest.mark.parametrize("share", ["0.7", "0.5", ".5"])
def test_fold_file(tmp_path: Path, share: str) -> None:
    path = fold_file(tmp_path, share)
    stored = scipy.io.loadmat(path)
    folds = read_fold_file(path, LABEL)
    assert [fold.name for fold in folds] == [0, 1, 2]
    for i, fold in enumerate(folds):
        assert (len(fold.train), len(fold.validation), len(fold.test)) == split_sizes(
            N, float(share)
        )
        order = stored["folds_sample_index"][0, i].ravel() - 1
        assert [*fold.train, *fold.validation, *fold.test] == order.tolist()
        assert np.array_equal(fold.view_mask, stored["folds_data"][0, i])
        assert np.array_equal(fold.label_mask[fold.train], stored["folds_label"][0, i][fold.train])
        assert not fold.label_mask[fold.test].any()
        assert not fold.label_mask[fold.validation].any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"folds_data": cell(np.ones((N, 2)))}, "same length"),
        ({"folds_sample_index": cell(*[np.ones((1, N))] * 3)}, "no order of 1"),
        ({"folds_label": cell(*[np.ones((N, 5))] * 3)}, r"folds_label\{1\} has shape"),
        ({"folds_data": cell(*[np.full((N, 2), 2)] * 3)}, "0 and 1 only"),
    ],
)
def test_broken_fold_files(tmp_path: Path, changes: Any, message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        read_fold_file(fold_file(tmp_path, **changes), LABEL)


# ---------------------------------------------------------------------- archives


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "tiny.npz"
    np.savez_compressed(path, view0=FIRST, view1=SECOND, labels=LABEL)
    check(read_npz(path))
    check(read_data(path))
    check(read_data(tmp_path))
    assert read_npz(path).label_names == ("label0", "label1", "label2", "label3")


def test_npz_with_everything(tmp_path: Path) -> None:
    path = tmp_path / "tiny.npz"
    matrix = sparse.csr_array(FIRST)
    mask = np.arange(2 * N).reshape(N, 2) % 3 > 0
    np.savez(
        path,
        text_data=matrix.data,
        text_indices=matrix.indices.astype(np.uint16),
        text_indptr=matrix.indptr,
        text_shape=np.array(matrix.shape),
        meta_data=SECOND,  # the name of a dense view may look like a part
        labels=np.where(LABEL, 1, -1),
        label_names=np.array(["a", "b", "c", "d"]),
        view_mask=mask.astype(np.uint8),
        story_ids=np.arange(N) + 100,
    )
    with pytest.warns(ViewgapWarning, match="read -1 as 0, absent"):
        raw = read_npz(path)
    assert raw.views.names == ("text", "meta_data")
    assert np.array_equal(raw.views.stored("text").toarray(), FIRST)
    assert raw.views.stored("text").dtype == np.uint8
    assert np.array_equal(raw.views.observed, mask)
    assert raw.views.sample_ids[0] == 100
    assert raw.label_names == ("a", "b", "c", "d")
    assert np.array_equal(raw.labels, LABEL)  # type: ignore[arg-type]


def test_npz_without_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", view0=FIRST)
    raw = read_npz(tmp_path / "a.npz")
    assert raw.labels is None
    assert raw.label_names == ()


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ({"a": FIRST, "b": SECOND[:3]}, ViewError, "same number of rows"),
        ({"a": FIRST, "b": np.ones(N)}, ViewError, "'b'.*shape"),
        ({"a": FIRST, "labels": LABEL[:3]}, LabelError, "20 samples, 3 rows"),
        ({"a": FIRST, "labels": np.array(["x"] * N)}, DataFileError, "must be numbers"),
        (
            {"a": FIRST, "x_ids": np.arange(N), "y_ids": np.arange(N)},
            DataFileError,
            "several arrays",
        ),
        ({"labels": LABEL}, ViewError, "at least one view"),
        (
            {"a_data": [1.0], "a_indices": [9], "a_indptr": [0, 1], "a_shape": [1, 2]},
            DataFileError,
            "sparse view 'a'",
        ),
        (
            {"a_data": [1.0], "a_indices": [0], "a_indptr": [0, 9], "a_shape": [1, 2]},
            DataFileError,
            "sparse view 'a'",
        ),
    ],
)
def test_other_archives_are_refused(tmp_path: Path, arrays: Any, error: Any, message: str) -> None:
    contents: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items()}
    np.savez(tmp_path / "a.npz", **contents)
    with pytest.raises(error, match=message) as caught:
        read_npz(tmp_path / "a.npz")
    assert "a.npz" in str(caught.value)


# ---------------------------------------------------------------------- tables


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    first = pd.DataFrame({"p": [1.5, 2.5, 3.5]}, index=["007", "008", "009"])
    first.to_csv(tmp_path / "audio.csv")  # the id column has no name
    second = pd.DataFrame({"sample": ["009", "007"], "q": [4, 5], "r": [6, 7]})
    second.to_parquet(tmp_path / "text.parquet")
    return tmp_path


def test_tables(tables: Path) -> None:
    labels = pd.DataFrame({"id": ["009", "007", "008"], "cat": [1, 0, None], "dog": [0, 1, 1]})
    labels.to_csv(tables / "labels.csv", index=False)
    raw = read_table_folder(tables)
    assert raw.views.names == ("audio", "text")
    assert raw.views.sample_ids.tolist() == ["009", "007", "008"]  # as the labels
    assert raw.views.observed.tolist() == [[True, True], [True, True], [True, False]]
    assert raw.views.rows("text").tolist() == [[4, 6], [5, 7], [0, 0]]
    assert raw.label_names == ("cat", "dog")
    assert np.array_equal(raw.labels, [[1, 0], [0, 1], [np.nan, 1]], equal_nan=True)  # type: ignore[arg-type]
    assert read_data(tables).views.shape == (3, 3)


def test_tables_with_ids_in_the_index_or_as_numbers(tmp_path: Path) -> None:
    pd.DataFrame({"p": [1.0, 2.0]}, index=[1, 2]).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"id": [2, 1], "q": [3.0, 4.0]}).to_csv(tmp_path / "b.csv", index=False)
    raw = read_table_folder(tmp_path)
    assert raw.views.sample_ids.tolist() == ["1", "2"]
    assert raw.views.to_array().tolist() == [[1, 4], [2, 3]]
    assert raw.labels is None


def test_samples_without_labels_are_reported(tables: Path) -> None:
    pd.DataFrame({"id": ["009"], "cat": [1]}).to_csv(tables / "labels.csv", index=False)
    with pytest.warns(ViewgapWarning, match="2 samples have no row of labels"):
        assert read_table_folder(tables).labels is not None


def test_other_folders_are_refused(tables: Path) -> None:
    with pytest.raises(DataFileError, match="expected a folder"):
        read_table_folder(tables / "audio.csv")
    (tables / "text.csv").write_text("id,q\n007,1\n")
    with pytest.raises(DataFileError, match="several files for the table 'text'"):
        read_table_folder(tables)
    (tables / "text.csv").write_text("id\n007\n")
    (tables / "text.parquet").unlink()
    with pytest.raises(DataFileError, match=r"text\.csv: .*ids only"):
        read_table_folder(tables)
    (tables / "text.csv").write_text("id,q\n007,word\n")
    with pytest.raises(ViewError, match=r"view 'text': column 'q', sample '007': .* 'word'"):
        read_table_folder(tables)
    for name in ("text.csv", "audio.csv"):
        (tables / name).unlink()
    with pytest.raises(DataFileError, match="no data in this folder"):
        read_table_folder(tables)


def test_paths_of_no_known_kind(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(DataFileError, match="unknown kind"):
        read_data(tmp_path / "a.txt")
    with pytest.raises(DataFileError, match="does not exist"):
        read_data(tmp_path / "b")
    for name in ("b.mat", "b.npz"):
        with pytest.raises(DataFileError, match="does not exist"):
            read_data(tmp_path / name)
    (tmp_path / "c.npz").mkdir()
    with pytest.raises(DataFileError, match="is a folder"):
        read_npz(tmp_path / "c.npz")


def test_paths_with_spaces_and_letters(tmp_path: Path) -> None:
    folder = tmp_path / "mes données 数据"
    folder.mkdir()
    np.savez(folder / "a b.npz", view0=FIRST, view1=SECOND, labels=LABEL)
    check(read_data(str(folder / "a b.npz")))


def test_packages_that_are_not_installed(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tables / "a.mat", "w") as file:
        file["X"] = np.eye(2)
    monkeypatch.setitem(sys.modules, "h5py", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataFileError, match=r"a\.mat: .* needs the package h5py: pip install"):
        read_six_view(tables / "a.mat")
    (tables / "a.mat").unlink()
    with pytest.raises(DataFileError, match=r"text\.parquet: .* needs the package pyarrow"):
        read_table_folder(tables)
