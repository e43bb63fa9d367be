"""Mulan's ARFF and XML: dense and sparse rows, labels, columns of views; or a refusal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from data_files import same
from viewgap.data import read_data, read_views
from viewgap.data.formats.arff import read_arff
from viewgap.data.formats.mulan import ViewSplit, label_names, read_mulan
from viewgap.errors import DataFileError, InputError

DENSE = """\
% a comment
@RELATION "songs, small"

@attribute BH_low numeric
@ATTRIBUTE 'BH high' REAL
@attribute site {10,2,'a \\'b'}
@attribute seen {0,1}
@attribute note string
@attribute calm {0, 1}
@attribute "sad song" {1,0}

@data
1.5,-2,10,1,'x, y',0,1
2.5,?,2,0,?,1,?
% another comment
3.5,4e1,'a \\'b',1,"z",1,0
"""
XML = """<?xml version="1.0" ?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="calm"><label name="sad song"></label></label>
</labels>"""
VIEWS = """
ignore = ["note", "seen"]
[views]
rhythm = "BH*"
place = "3"
[missing.place]
seen = 0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "songs.arff").write_text(DENSE)
    (tmp_path / "songs.xml").write_text(XML)
    (tmp_path / "songs.views.toml").write_text(VIEWS)
    return tmp_path


def test_views_labels_names_and_gaps(folder: Path) -> None:
    raw = read_data(folder / "songs.arff")
    assert raw.views.names == ("rhythm", "place")
    assert raw.views.observed.tolist() == [[True, True], [True, False], [True, True]]
    assert raw.views.rows("rhythm")[[0, 2]].tolist() == [[1.5, -2], [3.5, 40]]
    assert raw.views.n_missing_values["rhythm"] == 1
    # A word among the values: the order is the declared one.
    assert raw.views.rows("place").tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert raw.label_names == ("calm", "sad song")
    assert raw.labels is not None
    assert np.array_equal(raw.labels, [[0, 1], [1, np.nan], [1, 0]], equal_nan=True)


@pytest.mark.filterwarnings("error")
def test_a_folder_reads_the_files_beside_it_and_labels_are_not_needed(folder: Path) -> None:
    assert len(read_data(folder).label_names) == 2
    (folder / "songs.xml").unlink()
    (folder / "songs.views.toml").write_text(VIEWS.replace('"seen"]', '"seen", "calm", "sad*"]'))
    assert read_views(folder).dims == (2, 3)
    with pytest.raises(DataFileError, match=r"songs\.xml.*does not exist"):
        read_data(folder)


SPARSE = """@relation terms
@attribute a numeric
@attribute b numeric
@attribute kind {x,y}
@attribute flag {1,0}
@attribute c numeric
@attribute one {0,1}
@data
{0 2, 4 1.5, 5 1}
{}
{1 -1, 2 y, 3 0, 4 ?}
"""


def test_sparse_rows_stay_sparse_and_what_is_absent_is_the_first_value(tmp_path: Path) -> None:
    (tmp_path / "t.arff").write_text(SPARSE)
    (tmp_path / "t.xml").write_text('<labels><label name="one"/></labels>')
    (tmp_path / "t.views.toml").write_text('[views]\nterms = ["a", "b"]\nrest = "3-5"')
    with pytest.raises(InputError, match="rest"):
        read_data(tmp_path / "t.arff", nan="error")
    raw = read_data(tmp_path / "t.arff")
    assert all(map(raw.views.is_sparse, raw.views.names))
    assert same(raw.views[[0, 1]], [[2, 0, 1, 0, 1, 1.5], [0, 0, 1, 0, 1, 0]])
    assert raw.views.rows("rest")[2, :3].tolist() == [0, 1, 0]
    assert raw.views.n_missing_values["rest"] == 1
    assert raw.labels is not None
    assert raw.labels.ravel().tolist() == [1, 0, 0]


def test_dense_and_sparse_text_are_the_same_data(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=(20, 6)) * (rng.random((20, 6)) < 0.3), 3)
    header = "\n".join(f"@attribute x{j} numeric" for j in range(6)) + "\n@data\n"
    dense = "\n".join(",".join(map(repr, row.tolist())) for row in values)
    entries = [", ".join(f"{j} {row[j]!r}" for j in np.flatnonzero(row)) for row in values.tolist()]
    (tmp_path / "d.arff").write_text(header + dense)
    (tmp_path / "s.arff").write_text(header + "\n".join(f"{{{text}}}" for text in entries))
    found = read_arff(tmp_path / "s.arff").values
    assert sparse.issparse(found)
    assert np.array_equal(found.toarray(), values)
    assert np.array_equal(read_arff(tmp_path / "d.arff").values, values)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1.5,-2", "1.5", "line 13: expected 7 values, found 6"),
        ("1.5,-2", "1.5,1_0", "line 13: attribute 'BH high': expected a number, found '1_0'"),
        ("1.5,-2", "{0 1}\n1.5,-2", "dense and sparse"),
        ("-2,10,1", "-2,11,1", "attribute 'site' has no value '11'"),
        ("'x, y'", "'x, y", "cannot be read from"),
        ("numeric", "matrix", "line 4: attribute 'BH_low': expected numeric"),
        ("'BH high'", "BH_low", "several attributes are named 'BH_low'"),
        ("@data", "", "expected @attribute or @data"),
        ("{0, 1}", "{0, 0}", "must be distinct"),
        ("{0, 1}", "{no, 1}", "no value '0'"),
        ("{1,0}", "{1,0,2}", "label 'sad song' must have the values 0 and 1"),
        ("calm", "quiet", "label 'calm' is no attribute"),
    ],
)
def test_a_file_that_is_not_as_declared_is_refused(
    folder: Path, old: str, new: str, message: str
) -> None:
    (folder / "songs.arff").write_text(DENSE.replace(old, new, 1))
    with pytest.raises(DataFileError, match=message):
        read_data(folder / "songs.arff")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"BH*"', '["BH*", "3"]', "column 'site' is in 'rhythm' and 'place'"),
        ('"note", ', "", "1 columns are in no view: note"),
        ('["note", ', '["absent*", "note", ', r"no column is named 'absent\*'"),
        ('"3"', '"3-9"', "must be among 1-7 and hold no label"),
        ('"3"', '"6"', "hold no label"),
        ('"3"', '["3", "note"]', "column 'note' is in 'place' and ignore"),
        ("[missing.place]", "[missing.time]", "is about no view"),
        ("seen = 0", "seen = 5", "has no value '5'"),
        ("seen = 0", "absent = 0", "which is no column"),
        ("ignore", "leave", "unknown key 'leave'"),
        ("[views]", "[view]", "unknown key 'view'"),
    ],
)
def test_a_wrong_file_of_views_is_refused(folder: Path, old: str, new: str, message: str) -> None:
    (folder / "songs.views.toml").write_text(VIEWS.replace(old, new, 1))
    with pytest.raises(DataFileError, match=message):
        read_data(folder / "songs.arff")


def test_without_a_file_of_views_the_message_says_how_to_write_one(folder: Path) -> None:
    (folder / "songs.views.toml").unlink()
    with pytest.raises(
        DataFileError, match=r"songs\.views\.toml beside it, with a table \[views\]"
    ):
        read_data(folder / "songs.arff")
    split = ViewSplit({"all": ["BH*", "site", "seen"]}, ["note"])
    assert read_mulan(folder / "songs.arff", split=split).views.dims == (6,)
    with pytest.raises(DataFileError, match="'note' is text"):
        read_mulan(folder / "songs.arff", split=ViewSplit({"all": ["*"]}))


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE l [<!ENTITY a "aaaa">]><labels><label name="&a;"/></labels>',
        "<labels></labels>",
        '<labels><label name="a"/><label name="a"/></labels>',
        "<labels><label/></labels>",
        '<labels><label name="a"/>',
        "",
    ],
)
def test_a_wrong_list_of_labels_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "l.xml").write_text(text)
    with pytest.raises(DataFileError):
        label_names(tmp_path / "l.xml")
