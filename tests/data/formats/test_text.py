"""Compressed text: read as if it were plain, refused where it is not what it seems."""

import gzip
from pathlib import Path

import pytest

from viewgap.data.formats.base import LIMIT_VARIABLE
from viewgap.data.formats.one_table import load_view
from viewgap.data.formats.options import ReadOptions
from viewgap.errors import DataFileError, ViewError

TEXT = b"id,x\na,1\nb,2\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv.gz", TEXT, r"not compressed; name it a\.csv"),
        ("a.csv", gzip.compress(TEXT, mtime=0), r"compressed \(gzip\); name it a\.csv\.gz"),
        ("a.csv.gz", gzip.compress(TEXT, mtime=0)[:-9], "damaged"),
        ("a.csv.gz", gzip.compress(TEXT, mtime=0)[:-4] + b"abcd", "damaged"),
        ("a.csv.gz", b"\x1f\x8b" + b"\0" * 40, "damaged"),
        ("a.tsv.gz", gzip.compress("id\tx\né\t1\n".encode("latin-1"), mtime=0), "Windows-1252"),
    ],
)
def test_compressed_files_that_are_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataFileError, match=message):
        load_view(tmp_path / name)


def test_a_file_that_would_unpack_to_more_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"id,x\n" + b"1" * 10_000_000, mtime=0))
    monkeypatch.setenv(LIMIT_VARIABLE, "1000000")
    with pytest.raises(DataFileError, match=LIMIT_VARIABLE):
        load_view(path)


def test_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id;x;y\na;1,5;-2\nb;;1,5e3\n")
    assert load_view(path, ReadOptions(decimal=",")).loc["b", "y"] == 1500
    with pytest.raises(ViewError, match=r"'1,5'.*write a decimal point: 1\.5.*decimal=','"):
        load_view(path)
    path.write_text("id;x\na;1.234,5\n")
    with pytest.raises(ViewError, match="a point in a number is refused beside decimal=','"):
        load_view(path, ReadOptions(decimal=","))
