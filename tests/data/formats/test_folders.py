"""Every file of a folder is read, refused, or named."""

import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io

from data_files import cell
from viewgap.data.formats import read_data, read_views
from viewgap.errors import DataFileError, ViewgapWarning

TABLE = "id,x\na,1\nb,2\n"
ARRAY = np.arange(6.0).reshape(3, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "genes.csv").write_text(TABLE)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("proteins.xlsm", "CSV UTF-8"),
        ("proteins.json.gz", "unpack"),
        ("proteins.tsv.bz2", "unpack"),
        ("proteins.RDS", "write.csv"),
        ("proteins.json", r"save it as \.csv or \.parquet"),
        ("proteins.feather", r"save it as \.csv or \.parquet"),
        ("proteins.loom", r"save it as \.csv or \.parquet"),
        ("proteins.pkl", "could run code"),
    ],
)
def test_data_that_is_not_read_is_refused(folder: Path, name: str, advice: str) -> None:
    (folder / name).write_bytes(b"x")
    for read in (read_data, read_views):
        with pytest.raises(DataFileError, match=rf"{name} looks like data.*{advice}.*move it out"):
            read(folder)


def test_text_is_data_where_it_is_a_table(folder: Path) -> None:
    (folder / "notes.txt").write_text("Some notes, of a person\nwho counts, one to 10.\n")
    with pytest.warns(ViewgapWarning, match=r"not read: notes\.txt"):
        read_data(folder)
    for text in ("id\tp\na\t1\nb\t2\n", "id;p\na;1,5\n", "id,p,q\na,1,2\nb,3,4\nc,5,6\n"):
        (folder / "notes.txt").write_text(text)
        with pytest.raises(DataFileError, match=r"notes\.txt looks like data.*name it \.tsv"):
            read_data(folder)


def test_other_files_are_named_in_one_note(folder: Path) -> None:
    for name in ("README.md", "paper.pdf", "a.png", "LICENSE", "b.docx", "c.bin"):
        (folder / name).write_bytes(b"x")
    (folder / "models").mkdir()
    with pytest.warns(ViewgapWarning) as caught:
        assert read_data(folder).views.names == ("genes",)
    (note,) = [str(w.message) for w in caught]
    assert note.endswith("not read: LICENSE, README.md, a.png, b.docx, c.bin and 2 more")


def test_hidden_files_are_passed_over(folder: Path) -> None:
    for name in (".DS_Store", ".proteins.csv", "~$proteins.xlsx", ".cache.npz"):
        (folder / name).write_bytes(b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_data(folder).views.names == ("genes",)


@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.mat", "a.h5"])
def test_kinds_are_not_mixed(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"x")
    with pytest.raises(DataFileError, match=rf"({name}.*genes\.csv|genes\.csv.*{name}).*one kind"):
        read_data(folder)


def test_several_archives(tmp_path: Path) -> None:
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", x=ARRAY)
    with pytest.raises(DataFileError, match=r"several files .*a\.npz, b\.npz.*give the path"):
        read_data(tmp_path)
    (tmp_path / "b.npz").unlink()
    assert read_data(tmp_path).views.shape == (3, 2)


def test_a_folder_with_one_file_of_all_views(tmp_path: Path) -> None:
    for name in ("mat", "h5"):
        (tmp_path / name).mkdir()
    scipy.io.savemat(tmp_path / "mat" / "mine.mat", {"X": cell(ARRAY), "label": np.eye(3, 2)})
    (tmp_path / "mat" / "mine_MaskRatios_0.5_LabelMaskRatio_0.5.mat").write_bytes(b"folds")
    with h5py.File(tmp_path / "h5" / "mine.h5", "w") as file:
        file["views/x"] = ARRAY
    for name in ("mat", "h5"):
        assert read_data(tmp_path / name).views.shape == (3, 2)


def test_folders_without_data(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"no data in this folder; expected one \.csv"):
        read_data(tmp_path)
    (tmp_path / "labels.csv").write_text(TABLE)
    with pytest.raises(DataFileError, match=r"with a view in this folder"):
        read_data(tmp_path)


def test_a_label_table_beside_arrays_must_be_given(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ARRAY)
    path = tmp_path / "status.csv"
    path.write_text("id,er\n0,1\n1,0\n2,1\n")
    with pytest.raises(DataFileError, match=r"one kind of data"):
        read_data(tmp_path)
    assert read_data(tmp_path, labels=path).labels[:, 0].tolist() == [1, 0, 1]  # type: ignore[index]
