"""F12, F13, F18, F23: names and shapes that could mean two things are refused, not guessed at."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.data import read_data
from viewgap.data.formats import read_views
from viewgap.errors import DataFileError, LabelError, ViewError

TABLE = "id,x\np,1\nq,2\n"
COMPOSED = "caf\u00e9"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


@pytest.mark.parametrize(
    ("here", "known"), [("Genes", "genes"), ("gene expr", "gene_expr"), (DECOMPOSED, COMPOSED)]
)
def test_a_view_that_is_named_almost_as_one_of_the_model(
    tmp_path: Path, here: str, known: str
) -> None:
    (tmp_path / f"{here}.csv").write_text(TABLE)
    (tmp_path / "scan.csv").write_text(TABLE)
    with pytest.raises(ViewError, match="are they the same"):
        read_views(tmp_path, known={known: ("x",), "scan": ("x",)})


@pytest.mark.parametrize(
    ("one", "other"), [(COMPOSED, DECOMPOSED), ("old man", "old  man"), ("Sea", "sea")]
)
def test_labels_of_a_list_that_differ_in_form_only(tmp_path: Path, one: str, other: str) -> None:
    (tmp_path / "a.csv").write_text(TABLE)
    (tmp_path / "labels.csv").write_text(f"id,tags\np,{one};sky\nq,{other}\n")
    with pytest.raises(LabelError, match="write them in one way"):
        read_data(tmp_path, label_separator=";")


def test_two_columns_of_one_name_in_a_view(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,g:x,g: x\np,1,2\nq,3,4\n")
    with pytest.raises(DataFileError, match="'g:x' and 'g: x' name the same column of view 'g'"):
        read_data(tmp_path / "a.csv")


def test_a_label_without_a_name(tmp_path: Path) -> None:
    labels = np.array([[1, 0], [0, 1]])
    np.savez(tmp_path / "a.npz", a=np.eye(2), labels=labels, label_names=["red", " "])
    with pytest.raises(DataFileError, match="label 2 of 2 has no name"):
        read_data(tmp_path / "a.npz")


def test_a_mask_of_views_beside_arrays(tmp_path: Path) -> None:
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.arange(6.0).reshape(3, 2))
    np.save(tmp_path / "view_mask.npy", np.array([[1, 0], [0, 1], [1, 1]]))
    with pytest.raises(ViewError, match=r"which views are observed.*\.npz archive, or rows of NaN"):
        read_data(tmp_path)


@pytest.mark.parametrize("name", ["y", "labels", "class_targets"])
def test_labels_among_the_views_of_an_hdf5_file(tmp_path: Path, name: str) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["views/a"], file[f"views/{name}"] = np.arange(6.0).reshape(3, 2), [[1], [0], [1]]
    with pytest.raises(LabelError, match=f"does '{name}' hold labels"):
        read_data(tmp_path / "a.h5")


def cells(*items: Any) -> Any:
    result = np.empty((1, len(items)), dtype=object)
    result[0, :] = items
    return result


@pytest.mark.parametrize("turned", [False, True])
def test_matrices_that_could_be_either_way_round(tmp_path: Path, turned: bool) -> None:
    from scipy.io import savemat

    path = tmp_path / "a_six_view.mat"
    matrix, label = np.arange(48.0).reshape(6, 8), np.tile([1.0, 0.0], (8, 3))
    views = cells(matrix, matrix.T.copy() if turned else matrix)
    savemat(path, {"X": views, "label": label})
    with pytest.raises(DataFileError, match="the number of samples could be 6 or 8"):
        read_data(path)
    savemat(path, {"X": cells(matrix, matrix), "label": label.T})  # rows are samples in all
    assert read_data(path).views.shape == (6, 16)


def test_a_square_matrix_of_labels_beside_views_with_samples_as_columns(tmp_path: Path) -> None:
    from scipy.io import savemat

    path, matrix = tmp_path / "a_six_view.mat", np.arange(12.0).reshape(4, 3)
    savemat(path, {"X": cells(matrix, matrix), "label": np.eye(3)})
    with pytest.raises(DataFileError, match="'label' is square"):
        read_data(path)
    savemat(path, {"X": cells(matrix.T.copy(), matrix.T.copy()), "label": np.eye(3)})
    assert read_data(path).views.shape == (3, 8)


MULAN = """@relation r
@attribute x numeric
@attribute flag numeric
@attribute l {0,1}
@data
1,0,1
2,?,0
"""


@pytest.mark.parametrize(
    ("value", "message"),
    [("0", "who has view 'a', and is unknown in row 2 after @data"), ("no", "holds numbers")],
)
def test_a_flag_of_mulan_that_says_nothing(tmp_path: Path, value: str, message: str) -> None:
    (tmp_path / "d.arff").write_text(MULAN)
    (tmp_path / "d.xml").write_text('<labels><label name="l"></label></labels>')
    views = f'[views]\na = "x"\nb = "flag"\n[missing.a]\nflag = "{value}"\n'
    (tmp_path / "d.views.toml").write_text(views)
    with pytest.raises(DataFileError, match=message):
        read_data(tmp_path / "d.arff")
