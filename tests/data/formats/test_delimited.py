"""CSV and TSV tables are read as they stand, or refused with line, sample and column."""

import re
from pathlib import Path

import numpy as np
import pytest

from viewgap.data.formats import read_data, read_table_folder
from viewgap.data.formats.one_table import load_labels, load_view
from viewgap.errors import DataFileError, ViewError, ViewgapError


def write(folder: Path, text: str | bytes, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "id,x,y\na,1,2.5\nb,-3e2,\n",
        "id,x,y\r\na,1,2.5\r\nb,-3e2,NA\r\n",
        "\ufeffid,x,y\n\na,1,2.5\n\nb,-3e2,nan",
        'id,"x",y\n"a","1",2.5\n"b",-3e2,?\n',
        " id , x , y \n a , 1 , 2.5 \n b , -3e2 , \n",
        "id;x;y\na;1;2.5\nb;-3e2;\n",
        "id\tx\ty\na\t1\t2.5\nb\t-3e2\tnull\n",
        ",x,y\na,1,2.5\nb,-300,None\n",
        "id,x,y\na,1,2.5\n , ,\nb,-3e2,\n,,\n,,,,,\n",
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_ways_to_write_the_same_table(tmp_path: Path, text: str, name: str) -> None:
    frame = load_view(write(tmp_path, text, name))
    assert frame.index.tolist() == ["a", "b"]
    assert frame.columns.tolist() == ["x", "y"]
    np.testing.assert_array_equal(frame.to_numpy(), [[1, 2.5], [-300, np.nan]])


def test_numbers_are_read_to_the_last_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100)
    lines = "".join(f"s{i},{value!r}\n" for i, value in enumerate(values.tolist()))
    frame = load_view(write(tmp_path, f"id,x\n{lines}"))
    assert np.array_equal(frame["x"].to_numpy(), values)


def test_booleans_and_long_ids(tmp_path: Path) -> None:
    frame = load_view(write(tmp_path, "id,x\n007,TRUE\n1e5,False\n"))
    assert frame.index.tolist() == ["007", "1e5"]
    assert frame["x"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,x,y\na,1,5,2,5\n", r"line 2 \(sample 'a'\) has 5 fields, the header has 3.*1\.5"),
        ("id,x\na,1,5\n", r"has 3 fields, the header has 2.*decimal commas.*id column"),
        ("id,x\na,1\nb,2,\n", r"line 3 \(sample 'b'\) has 3 fields"),
        ("id,x,y\na,1,2\nb,1\n", r"line 3 \(sample 'b'\) has 2 fields.*cut short"),
        ("# by R\nid,x,y\na,1,2\n", r"line 2 .*has 3 fields.* remove what stands above it"),
        ("x,y\na,1,2\nb,3,4\n", r"line 2 .*has 3 fields.*id column, add it"),
        ("id,x,x\na,1,2\n", "several columns are named 'x'"),
        ("id,x,id\na,1,2\n", "several columns are named 'id'"),
        ("id,x,\na,1,\n", "column 3 has no name"),
        ("a,1.5,2.5\nb,3.5,4.5\n", r"first line must hold the names.*'1\.5'"),
        ("id,x\na,1\na,2\n", r"first column \('id'\) must hold the sample ids.*'a' 2 times"),
        ("id,x\na,1\n,2\n", r"first column \('id'\) must hold.*row 2 after the header has none"),
        ("x,y\n0.5,1\n1.5,2\n", r"first column \('x'\) must hold.*decimal numbers \('0\.5', '1"),
        ("id,x\n", "one line per sample, found none"),
        ("id\na\n", "found ids only"),
        ("id|x\na|1\n", "between fields stand commas, semicolons or tabs"),
        ("", "empty"),
        ("\n\n", "empty"),
        ('id,x\n"a,1\n', "damaged"),
        ("id;x\ty\na;1\t2\n", "semicolons and tabs.*not clear"),
        (b"\x1f\x8b\x08\x00", "compressed"),
        ("id,x\né,1\n".encode("latin-1"), r"byte 0xe9\).*Windows-1252.*'é,1'.*CSV UTF-8"),
        ("id,x\na,1\n".encode("utf-16-le"), "UTF-16 without a byte order mark"),
        ("id,x\na,1\n".encode("utf-32"), "looks like UTF-32"),
        ("id,x\na,1\n".encode("utf-16")[:-1], "damaged.*UTF-16"),
        (b"id,x\n" + b"a" * 200_000 + b",1\n", "damaged"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = write(tmp_path, text)
    for load in (load_view, load_labels):
        with pytest.raises(DataFileError, match=message) as caught:
            load(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("word", "found 'word'; encode text as numbers"),
        ('"1,5"', r"found '1,5'; write a decimal point: 1\.5"),
        ('"1,500"', r"decimal point: 1\.500, or say .*; or 1500, where the comma separates"),
        ('"1,234.5"', "without separators of thousands"),
        ("1_000", "found '1_000'; write numbers without separators of thousands"),
        ("1 234.5", "without separators of thousands"),
        ("0x10", "found '0x10'"),
        ("-", "found '-'; .* leave the cell blank"),
        ("ND", "found 'ND'; .* leave the cell blank"),
        (".", "leave the cell blank"),
        ("<0.05", "a limit is no number: write one, or leave the cell blank"),
        ("45%", "write the number alone, in one unit for the whole column"),
        ("1.5 mg", "the number alone"),
        ("\u22121.5", "write the minus sign as -"),
        ("2021-03-04", "a date or a time of day is no number"),
        ("4.3.2021", "a date or a time"),
        ("12:30", "a date or a time"),
        ("#DIV/0!", "an error of a spreadsheet"),
        ("yes", "found 'yes'"),
        ("w" * 100, "found 'w{37}\\.\\.\\.'"),
    ],
)
def test_entries_that_are_no_numbers(tmp_path: Path, cell: str, message: str) -> None:
    path = write(tmp_path, f"id,x,y\na,1,2\nb,3,{cell}\n")
    with pytest.raises(ViewError, match=rf"view 'a': column 'y', sample 'b'.*{message}"):
        load_view(path)


def test_decimal_commas_between_semicolons(tmp_path: Path) -> None:
    path = write(tmp_path, "id;x;y\na;1,5;2\n")
    with pytest.raises(ViewError, match=r"column 'x', sample 'a'.*'1,5'.*decimal point: 1\.5"):
        load_view(path)


def test_many_columns(tmp_path: Path) -> None:
    n = 20_000
    header = ",".join(f"c{i}" for i in range(n))
    write(tmp_path, f"id,{header}\nx{',1' * n}\ny{',' * n}\n")
    views = read_table_folder(tmp_path).views
    assert views.shape == (2, n)
    assert views.observed[:, 0].tolist() == [True, False]


def test_the_limit_counts_what_entries_become(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(f"{i}{',1' * 1000}\n" for i in range(100))
    header = ",".join(map(str, range(1000)))
    path = write(tmp_path, f"id,{header}\n{lines}")  # 200 kB, whose numbers take 800 kB
    monkeypatch.setenv("VIEWGAP_MAX_FILE_BYTES", "500000")
    for load in (load_view, load_labels):
        with pytest.raises(DataFileError, match=r"a\.csv.*more than the limit of 500,000"):
            load(path)
    monkeypatch.setenv("VIEWGAP_MAX_FILE_BYTES", "1000000")
    assert load_view(path).shape == (100, 1000)


@pytest.mark.parametrize(
    "damage", [b"\x00", b"\xff", b'"', b"\n", b",", b";", b"\t", b"1e999", b""]
)
def test_damage_is_never_a_foreign_error(tmp_path: Path, damage: bytes) -> None:
    content = b"id,x,y\na,1,2\nb,3,4\n"
    for place in range(len(content)):
        path = write(tmp_path, content[:place] + damage + content[place + 1 :])
        try:
            frame = load_view(path)
        except ViewgapError as error:
            assert str(path) in str(error)  # noqa: PT017
        else:
            assert frame.shape[1] in (1, 2)
            assert re.fullmatch("float64", str(frame.dtypes.iloc[0]))


def test_a_hundred_thousand_columns(tmp_path: Path) -> None:
    """Takes half a second; half a minute where every name is searched among all names."""
    n = 100_000
    names = ",".join(f"c{i}" for i in range(n))
    (tmp_path / "a.csv").write_text(f"{names},id\n{','.join(map(str, range(n)))},x\n")
    views = read_data(tmp_path, id_column="id").views
    assert views.dims == (n,)
    assert views.sample_ids == ("x",)
    np.testing.assert_array_equal(views.rows("a")[0], np.arange(n))


@pytest.mark.parametrize("first", ["sep=,", "sep=;", "SEP=\t"])
def test_a_line_that_tells_spreadsheets_the_separator_is_no_header(
    first: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\nid{first[-1]}x\np1{first[-1]}1\n")
    with pytest.raises(DataFileError, match="told the separator; remove this line"):
        load_view(path)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("id,x,y\nunit,mg,%\na,1,2\n", "holds units or a second header, remove it; else encode"),
        ("id,x,y\n,mg,%\na,1,2\n", "holds units or a second header, remove it; else encode"),
        ("id,x,y\na,1,2\nid,x,y\nb,1,2\n", "once more: remove this line"),
        ("id,x,y\na,\u20ac 5,2\n", "write the number alone"),
        ("x,y,Patient ID\n0.5,1,a\n1.5,2,b\n", "say id_column='Patient ID'; else encode"),
    ],
)
def test_advice_by_what_a_line_or_a_column_looks_like(
    tmp_path: Path, text: str, advice: str
) -> None:
    with pytest.raises(ViewError, match=advice):
        load_view(write(tmp_path, text))


@pytest.mark.parametrize("text", ["id,x,y\na,1,2\nunit,mg,%\n", "id,x,y\na,low,2\n"])
def test_text_elsewhere_is_no_second_header(tmp_path: Path, text: str) -> None:
    with pytest.raises(ViewError, match="; encode text"):
        load_view(write(tmp_path, text))
