"""A data file changed upstream. Expected, found, and how to accept it; nothing is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from viewgap.datasets import download_dataset
from viewgap.datasets.sources import SOURCES, Checksum, RemoteFile, Source
from viewgap.errors import DataFileError
from web_server import serve_folder

NAME = "tiny_six_view.mat"
CONTENT = bytes(range(256)) * 100
CHECKSUMS = {
    "sha256": hashlib.sha256(CONTENT).hexdigest(),
    "gitblob": hashlib.sha1(b"blob 25600\0" + CONTENT).hexdigest(),
}


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The folder of a web server, and its address."""
    folder = tmp_path / "upstream"
    folder.mkdir()
    with serve_folder(folder) as url:
        yield folder, url


@pytest.mark.parametrize("kind", CHECKSUMS)
@pytest.mark.parametrize("place", [0, 12_345, len(CONTENT) - 1])
def test_a_changed_byte(
    kind: str,
    place: int,
    upstream: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, url = upstream
    checksum = Checksum(kind, CHECKSUMS[kind])
    source = Source("ask the authors", (RemoteFile(NAME, checksum),), (url,))
    monkeypatch.setitem(SOURCES, "tiny", source)
    changed = bytearray(CONTENT)
    changed[place] ^= 1
    (folder / NAME).write_bytes(changed)
    with pytest.raises(DataFileError) as caught:
        download_dataset("tiny", folder=tmp_path)
    found = checksum.of(folder / NAME)
    for text in (str(checksum), str(found), url, "loading does not compare", "ask the authors"):
        assert text in str(caught.value)
    assert list((tmp_path / "tiny").iterdir()) == []

    (folder / NAME).write_bytes(CONTENT)
    (file,) = download_dataset("tiny", folder=tmp_path)
    assert file.read_bytes() == CONTENT


def test_a_file_that_is_here_and_differs_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checksum = Checksum("sha256", CHECKSUMS["sha256"])
    monkeypatch.setitem(SOURCES, "tiny", Source("", (RemoteFile(NAME, checksum),), ("http://x",)))
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / NAME).write_bytes(b"my own")
    with pytest.raises(DataFileError, match=r"not the published file: expected .*move it away"):
        download_dataset("tiny", folder=tmp_path)
    assert (tmp_path / "tiny" / NAME).read_bytes() == b"my own"
