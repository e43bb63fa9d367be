"""Downloads against a server on this machine: whole, continued, refused; never half a file."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.datasets import download_dataset, load_dataset, transfer
from viewgap.datasets.downloads import how_to_get
from viewgap.datasets.sources import SOURCES, Checksum, RemoteFile, Source
from viewgap.errors import DataFileError, InputError, RunError, SettingError

NAME = "tiny_six_view.mat"
SIZE = 36 * transfer.CHUNK
CONTENT = np.random.default_rng(0).bytes(SIZE)
LIMIT = 400_000
BLOB = Checksum("gitblob", hashlib.sha1(b"blob %d\0" % SIZE + CONTENT).hexdigest())
SHA256 = Checksum("sha256", hashlib.sha256(CONTENT).hexdigest())


def offer(*bases: str, checksum: Checksum = BLOB) -> Source:
    return Source(
        "ask the authors and put it into {folder}/", (RemoteFile(NAME, checksum, LIMIT),), bases
    )


@pytest.fixture
def folder(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a data set `tiny` of one file, which the server has."""
    server.files[NAME] = CONTENT
    monkeypatch.setitem(SOURCES, "tiny", offer(server.url))
    monkeypatch.setenv("VIEWGAP_DATA", str(tmp_path))
    return tmp_path / "tiny"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def leave_part(folder: Path, content: bytes) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{NAME}.part").write_bytes(content)


def assert_complete(folder: Path) -> None:
    assert names(folder) == [NAME]
    assert (folder / NAME).read_bytes() == CONTENT


# ---------------------------------------------------------------------------------- it works


@pytest.mark.parametrize("checksum", [BLOB, SHA256], ids=["gitblob", "sha256"])
def test_a_whole_file(
    checksum: Checksum, folder: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES, "tiny", offer(server.url, checksum=checksum))
    seen: list[tuple[str, int, int | None]] = []
    assert download_dataset("Tiny", watch=lambda *news: seen.append(news)) == [folder / NAME]
    assert_complete(folder)
    assert (folder / NAME).stat().st_mode & 0o777 == 0o666 & ~current_umask()
    assert seen[0] == (NAME, 0, SIZE)
    assert seen[-1] == (NAME, SIZE, SIZE)
    assert download_dataset("tiny") == [folder / NAME]
    assert len(server.asked) == 1, "what is here is not fetched again"


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_another_address_and_folder(folder: Path, server: Any, tmp_path: Path) -> None:
    server.files = {f"mirror/{NAME}": CONTENT}
    (file,) = download_dataset("tiny", url=f"{server.url}/mirror/", folder=tmp_path / "a b")
    assert file == tmp_path / "a b" / "tiny" / NAME
    assert not folder.exists()


def test_a_server_that_announces_no_size(folder: Path, server: Any) -> None:
    server.announces = False
    seen: list[int | None] = []
    download_dataset("tiny", watch=lambda _name, _done, total: seen.append(total))
    assert_complete(folder)
    assert set(seen) == {None}


def test_the_second_source_when_the_first_has_it_not(
    folder: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES, "tiny", offer(f"{server.url}/moved", server.url))
    download_dataset("tiny")
    assert_complete(folder)
    assert [name for name, _ in server.asked] == [f"moved/{NAME}", NAME]


# ---------------------------------------------------------------------------------- continued


def test_a_broken_connection_is_taken_up_again(folder: Path, server: Any) -> None:
    server.breaks = [12 * transfer.CHUNK, 10 * transfer.CHUNK]
    download_dataset("tiny")
    assert_complete(folder)
    assert [wanted for _, wanted in server.asked] == [None, "bytes=98304-", "bytes=180224-"]


def test_the_part_of_an_earlier_call_is_continued(folder: Path, server: Any) -> None:
    leave_part(folder, CONTENT[:123_456])
    seen: list[int] = []
    download_dataset("tiny", watch=lambda _name, done, _total: seen.append(done))
    assert_complete(folder)
    assert server.asked == [(NAME, "bytes=123456-")]
    assert seen[0] == 123_456


def test_a_complete_part_needs_no_server(folder: Path, server: Any) -> None:
    leave_part(folder, CONTENT)
    download_dataset("tiny")
    assert_complete(folder)
    assert server.asked == []


def test_a_server_without_ranges_starts_again(folder: Path, server: Any) -> None:
    server.ranges = False
    server.breaks = [12 * transfer.CHUNK]
    download_dataset("tiny")
    assert_complete(folder)
    assert [wanted for _, wanted in server.asked] == [None, "bytes=98304-"]


@pytest.mark.parametrize("size", [1000, SIZE, 350_000])
def test_the_part_of_another_version_is_dropped(size: int, folder: Path, server: Any) -> None:
    leave_part(folder, b"x" * size)
    download_dataset("tiny")
    assert_complete(folder)
    assert server.asked[-1] == (NAME, None)


def test_a_range_that_is_not_the_one_asked_for(folder: Path, server: Any) -> None:
    leave_part(folder, CONTENT[:1000])
    server.shift = 5
    download_dataset("tiny")
    assert_complete(folder)
    assert server.asked[-1] == (NAME, None)


# ---------------------------------------------------------------------------------- refused


def test_a_connection_that_breaks_for_good(folder: Path, server: Any) -> None:
    server.breaks = [12 * transfer.CHUNK, 0]
    with pytest.raises(RunError, match=r"ended after 98,304 of 294,912 bytes .*goes on") as caught:
        download_dataset("tiny")
    assert f"ask the authors and put it into {folder}/" in str(caught.value)
    assert names(folder) == [f"{NAME}.part"]
    download_dataset("tiny")
    assert_complete(folder)


def test_attempts_have_an_end(folder: Path, server: Any) -> None:
    server.breaks = [transfer.CHUNK] * 99
    with pytest.raises(RunError, match="ended after"):
        download_dataset("tiny")
    assert len(server.asked) == transfer.ATTEMPTS


def test_a_size_that_is_a_lie(folder: Path, server: Any) -> None:
    server.claims = 310_000
    with pytest.raises(RunError, match=r"ended after 294,912 of 310,000 bytes"):
        download_dataset("tiny")
    server.claims = 200_000
    shutil.rmtree(folder)
    with pytest.raises(DataFileError, match=r"expected gitblob:.*200,000 bytes"):
        download_dataset("tiny")
    assert names(folder) == []


def test_too_many_bytes_announced_or_sent(folder: Path, server: Any) -> None:
    server.files[NAME] = CONTENT + CONTENT
    with pytest.raises(RunError, match=r"announces 589,824 bytes, where .* at most 400,000"):
        download_dataset("tiny")
    server.announces = False
    with pytest.raises(RunError, match=r"sends .* or more, where .* at most 400,000"):
        download_dataset("tiny")
    assert names(folder) == []


@pytest.mark.parametrize("status", [403, 404, 500])
def test_another_status(status: int, folder: Path, server: Any) -> None:
    server.status = status
    with pytest.raises(RunError, match=f"answers {status}.*By hand: ask the authors"):
        download_dataset("tiny")
    assert names(folder) == []


def test_an_encoding_that_was_not_asked_for(folder: Path, server: Any) -> None:
    server.headers["Content-Encoding"] = "gzip"
    with pytest.raises(RunError, match="answers with gzip"):
        download_dataset("tiny")


def test_nobody_there(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(RunError, match=rf"cannot reach {url}/.*refused"):
        download_dataset("tiny", url=url)
    assert names(folder) == []


def test_all_sources_are_named_when_none_has_it(
    folder: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES, "tiny", offer(f"{server.url}/one", f"{server.url}/two"))
    with pytest.raises(RunError, match=r"/one/.*404.*/two/.*404.*By hand"):
        download_dataset("tiny")


@pytest.mark.parametrize("url", ["ftp://host/x", "corel", "http://", "file:///etc"])
def test_addresses_that_are_none(url: str, folder: Path) -> None:
    with pytest.raises(SettingError, match="expected a URL"):
        download_dataset("tiny", url=url)


# ---------------------------------------------------------------------------------- the disk


def test_a_full_disk_is_known_before(
    folder: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 0, 9))
    with pytest.raises(RunError, match=r"has 9 bytes left, .* needs 294,912 more"):
        download_dataset("tiny")
    assert names(folder) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS])
def test_a_disk_that_fills_up_midway(
    code: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_handle: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as broken:
        broken.setattr(transfer.os, "fsync", fail)
        with pytest.raises(RunError, match=rf"cannot write .*part: {os.strerror(code)}; free"):
            download_dataset("tiny")
    assert names(folder) == [f"{NAME}.part"]
    download_dataset("tiny")
    assert_complete(folder)


def test_a_folder_that_cannot_be_made(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match="cannot write"):
        download_dataset("tiny", folder=tmp_path / "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o500)
    with pytest.raises(RunError, match="Permission denied"):
        download_dataset("tiny")
    folder.chmod(0o700)


def test_two_at_once_do_not_mix(folder: Path, server: Any) -> None:
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(RunError, match="another process is downloading into"):
        download_dataset("tiny")
    os.close(handle)
    assert names(folder) == []
    download_dataset("tiny")
    assert_complete(folder)


IN_A_PROCESS = """
import sys
from viewgap.datasets import download_dataset, sources
from viewgap.datasets.sources import Checksum
url, name, digest = sys.argv[1:]
file = sources.RemoteFile(name, Checksum("gitblob", digest))
sources.SOURCES["tiny"] = sources.Source("", (file,), (url,))
download_dataset("tiny")
"""


def test_a_killed_download_leaves_its_part_only(folder: Path, server: Any) -> None:
    server.stall = threading.Event()
    part = folder / f"{NAME}.part"
    process = subprocess.Popen([sys.executable, "-c", IN_A_PROCESS, server.url, NAME, BLOB.digest])
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size >= SIZE // 2):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait(timeout=60)
    server.stall.set()
    server.stall = None
    assert names(folder) == [part.name]
    download_dataset("tiny")
    assert_complete(folder)
    assert server.asked[-1] == (NAME, f"bytes={SIZE // 2}-")


# ---------------------------------------------------------------------------------- which sets


@pytest.mark.parametrize("name", ["pascal07", "espgame", "iaprtc12", "mirflickr"])
def test_sets_that_the_authors_share(name: str) -> None:
    with pytest.raises(InputError, match=rf"READMEs.*\$VIEWGAP_DATA/{name}/.*Table 1"):
        download_dataset(name)


@pytest.mark.parametrize(("name", "array"), [("3sources", "view_mask"), ("emotions", "view1")])
def test_sets_that_are_made_from_public_files(name: str, array: str) -> None:
    assert array in str(how_to_get(name))
    with pytest.raises(InputError, match=array):
        download_dataset(name)


@pytest.mark.parametrize("name", ["multidigits", "nonsense", "../tiny"])
def test_nothing_to_download(name: str) -> None:
    with pytest.raises(InputError, match="available: corel5k"):
        download_dataset(name)
    assert how_to_get(name) is None


def test_corel5k_is_the_pair_of_the_authors() -> None:
    assert {str(file.checksum) for file in SOURCES["corel5k"].files} == {
        "gitblob:a89c2af569311662acb3770a0839fadaa71ab259",
        "gitblob:5de7fab1561268f91b1c26789fabdcacd9b41661",
    }


def test_without_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIEWGAP_DATA", raising=False)
    with pytest.raises(SettingError, match=r"VIEWGAP_DATA .*folder="):
        download_dataset("corel5k")


def test_loading_what_is_not_here_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWGAP_DATA", str(tmp_path))
    with pytest.raises(InputError, match="viewgap datasets download corel5k; by hand"):
        load_dataset("corel5k")
