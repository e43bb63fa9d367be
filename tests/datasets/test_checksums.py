"""Checksums: known values of both kinds, and texts that are none."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from viewgap.datasets.sources import Checksum
from viewgap.errors import SettingError

CONTENT = bytes(range(256)) * 9000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(CONTENT)
    return tmp_path / "file"


def test_both_kinds_of_a_file_of_several_pieces(file: Path) -> None:
    plain = hashlib.sha256(CONTENT).hexdigest()
    blob = hashlib.sha1(b"blob 2304000\0" + CONTENT).hexdigest()
    assert Checksum.parse(f"sha256:{plain}").matches(file)
    assert Checksum.parse(f"gitblob:{blob}").matches(file)
    assert not Checksum.parse(f"sha256:{plain[::-1]}").matches(file)
    assert str(Checksum.parse(f"gitblob:{blob[::-1]}").of(file)) == f"gitblob:{blob}"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
def test_git_agrees(file: Path) -> None:
    said = subprocess.run(["git", "hash-object", file], capture_output=True, text=True, check=True)
    assert Checksum("gitblob", "").of(file).digest == said.stdout.strip()


@pytest.mark.parametrize(
    "text", ["", "sha256:12", "md5:" + "0" * 32, "g" * 64, "gitblob:" + "x" * 40]
)
def test_what_is_no_checksum(text: str) -> None:
    with pytest.raises(SettingError, match="a checksum is sha256:"):
        Checksum.parse(text)
