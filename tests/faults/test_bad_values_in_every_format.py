"""F01, F13, F17, F18, F27: whatever the format, the answer names view, sample and column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from viewgap.data.formats import read_data
from viewgap.errors import DataFileError, InputError, LabelError, ViewError
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
