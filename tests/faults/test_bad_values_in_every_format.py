"""F01, F13, F17, F18, F27: whatever the format, the answer names view, sample and column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io

from data_files import cell
from viewgap.data.formats import read_data, read_views
from viewgap.errors import DataFileError, InputError, LabelError, ViewError, ViewgapWarning
from written_data import NEEDS, WRITERS, Tables, small_cll

TABLES = ["csv", "tsv", "gzip", "parquet", "excel"]
WIDE = ["prefixes", "wide_parquet", "wide_gzip", "patterns"]
ARRAYS = ["npy", "sparse", "h5mu", "h5ad"]

pytestmark = pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
Change = Callable[[pd.DataFrame], pd.DataFrame]


def write(kind: str, folder: Path, change: Change, where: str) -> tuple[Path, dict[str, object]]:
    """Write the small data with one table changed."""
    pytest.importorskip(NEEDS.get(kind, "numpy"))
    data = small_cll()
    views, labels = dict(data.views), data.labels
    if where == "labels":
        labels = change(labels)
    else:
        views[where] = change(views[where])
    written = WRITERS[kind](folder, Tables(views, labels))
    return written.path, written.options


def put(value: float) -> Change:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.copy()
        frame.iloc[2, 0] = value
        return frame

    return change


@pytest.mark.parametrize("kind", [*TABLES, *WIDE, *ARRAYS])
@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300])
def test_f01_f27_values_that_are_no_measurement(kind: str, value: float, tmp_path: Path) -> None:
    path, options = write(kind, tmp_path, put(value), "drugs")
    with pytest.raises(ViewError, match=r"drugs.*") as caught:
        read_data(path, **options)  # type: ignore[arg-type]
    assert "H002" in str(caught.value)
    assert "dr_0" in str(caught.value)


@pytest.mark.parametrize("kind", [*TABLES, "npy"])
def test_f13_an_id_twice(kind: str, tmp_path: Path) -> None:
    def twice(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([frame, frame.iloc[[1]]])

    path, options = write(kind, tmp_path, twice, "drugs")
    with pytest.raises((DataFileError, ViewError), match="drugs"):
        read_data(path, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [*TABLES, *WIDE, "h5ad"])
def test_f17_a_column_of_text(kind: str, tmp_path: Path) -> None:
    view = "methylation"
    path, options = write(kind, tmp_path, lambda frame: frame.assign(me_0="low"), view)
    with pytest.raises(InputError, match="me_0") as caught:
        read_data(path, **options)  # type: ignore[arg-type]
    assert "low" in str(caught.value)


@pytest.mark.parametrize("kind", [*TABLES, *WIDE, "npy", "sparse", "h5ad"])
@pytest.mark.parametrize("value", [0.5, 2.0])
def test_f18_labels_other_than_0_and_1(kind: str, value: float, tmp_path: Path) -> None:
    path, options = write(kind, tmp_path, put(value), "labels")
    with pytest.raises((LabelError, DataFileError), match="IGHV") as caught:
        read_data(path, **options)  # type: ignore[arg-type]
    assert "H002" in str(caught.value)


@pytest.mark.parametrize("kind", [*TABLES, "npy", "npz"])
@pytest.mark.parametrize("name", ["y", "Targets", "labels_2"])
def test_labels_under_another_name_are_no_view(kind: str, name: str, tmp_path: Path) -> None:
    """As a view they would give the answers away; under the name of a view they are one."""
    pytest.importorskip(NEEDS.get(kind, "numpy"))
    data = small_cll()
    for own in (name, f"{name}_view"):
        folder = tmp_path / own
        folder.mkdir()
        answers = data.labels.fillna(0.0).rename(columns="{}_again".format)
        written = WRITERS[kind](folder, Tables(data.views | {own: answers}, data.labels))
        if own == name:
            with pytest.raises(LabelError, match=f"{name}.*give the answers away"):
                read_data(written.path, **written.options)
        else:
            assert own in read_data(written.path, **written.options).views.names


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_f02_a_mask_under_another_name_is_no_view(kind: str, tmp_path: Path) -> None:
    """Values where views are missing would be read as measured ones."""
    data = small_cll()
    views = {name: frame.fillna(0.0) for name, frame in data.full().items()}
    seen = {name: frame.notna().any(axis=1).astype(float) for name, frame in data.full().items()}
    mask = pd.DataFrame(seen)
    written = WRITERS[kind](tmp_path, Tables(views | {"mask": mask}, data.labels))
    with pytest.raises(ViewError, match=r"'mask' say which views.*name it view_mask"):
        read_data(written.path)


def put_beside(path: Path, name: str, values: np.ndarray) -> None:
    """Add an array to an HDF5 file or a Zarr folder."""
    if path.suffix == ".h5":
        with pytest.importorskip("h5py").File(path, "r+") as file:
            file[name] = values
    else:
        pytest.importorskip("zarr").open_group(path, mode="r+").create_array(name, data=values)


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_f02_arrays_beside_the_views_are_named_or_refused(kind: str, tmp_path: Path) -> None:
    """A mask cannot be followed, as groups have no order of their views."""
    pytest.importorskip(NEEDS.get(kind, "numpy"))
    path = WRITERS[kind](tmp_path, small_cll()).path
    put_beside(path, "ages", np.ones(24))
    with pytest.warns(ViewgapWarning, match="not read: ages"):
        read_data(path)
    put_beside(path, "view_mask", np.ones((24, 3)))
    for read in (read_data, read_views):
        with pytest.raises(DataFileError, match=r"'view_mask' is not read.*a row of NaN"):
            read(path)


def test_f02_variables_beside_the_views_of_a_mat_file(tmp_path: Path) -> None:
    path = WRITERS["mat"](tmp_path, small_cll()).path
    content = {n: v for n, v in scipy.io.loadmat(path).items() if not n.startswith("__")}
    scipy.io.savemat(path, content | {"folds": np.ones((24, 1))})
    with pytest.warns(ViewgapWarning, match="not read: folds; expected X, label"):
        read_data(path)
    scipy.io.savemat(path, content | {"Mask": np.ones((24, 3))})
    with pytest.raises(DataFileError, match=r"'Mask' is not read.*a row of NaN"):
        read_data(path)


@pytest.mark.parametrize("square", [True, False])
def test_f23_a_square_matrix_beside_transposed_ones(square: bool, tmp_path: Path) -> None:
    """Nothing tells whether the samples of a square matrix are rows or columns."""
    rng = np.random.default_rng(0)
    views = [rng.normal(size=(4, 24)), rng.normal(size=(24 if square else 7, 24))]
    labels = small_cll().labels.to_numpy()
    scipy.io.savemat(tmp_path / "a.mat", {"X": cell(*views), "label": labels})
    if square:
        with pytest.raises(DataFileError, match="columns of 'view0', and 'view1' is square"):
            read_data(tmp_path / "a.mat")
    else:
        assert read_data(tmp_path / "a.mat").views.dims == (4, 7)
    scipy.io.savemat(tmp_path / "a.mat", {"X": cell(*(v.T for v in views)), "label": labels})
    found = read_data(tmp_path / "a.mat").views.rows("view1", dtype=np.float64)
    np.testing.assert_array_equal(found, views[1].T)


@pytest.mark.parametrize("kind", [*TABLES, "npy", "sparse"])
@pytest.mark.parametrize(
    ("rename", "cause"),
    [
        (lambda i: i.lower().replace("h0", "h"), "same but for their form"),
        (lambda i: str(int(i[1:])), "same but for their form"),
        (lambda i: f"{i}-01A", "different length"),
    ],
)
def test_f14_ids_of_another_form(
    kind: str, rename: Callable[[str], str], cause: str, tmp_path: Path
) -> None:
    path, options = write(kind, tmp_path, lambda frame: frame.rename(index=rename), "drugs")
    with pytest.raises(ViewError, match=f"'drugs' has no sample id in common.*{cause}"):
        read_data(path, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", TABLES)
def test_f14_a_transposed_table(kind: str, tmp_path: Path) -> None:
    path, options = write(kind, tmp_path, lambda frame: frame.T, "drugs")
    with pytest.raises(ViewError, match="it looks transposed"):
        read_data(path, **options)  # type: ignore[arg-type]
