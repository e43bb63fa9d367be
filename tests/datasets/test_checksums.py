"""Checksums: known values of both kinds."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from viewgap.datasets.sources import Checksum

CONTENT = bytes(range(256)) * 9000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(CONTENT)
    return tmp_path / "file"


def test_both_kinds_of_a_file_of_several_pieces(file: Path) -> None:
    plain = hashlib.sha256(CONTENT).hexdigest()
    blob = hashlib.sha1(b"blob 2304000\0" + CONTENT).hexdigest()
    assert Checksum("sha256", plain).matches(file)
    assert Checksum("gitblob", blob).matches(file)
    assert not Checksum("sha256", plain[::-1]).matches(file)
    assert str(Checksum("gitblob", blob[::-1]).of(file)) == f"gitblob:{blob}"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
def test_git_agrees(file: Path) -> None:
    said = subprocess.run(["git", "hash-object", file], capture_output=True, text=True, check=True)
    assert Checksum("gitblob", "").of(file).digest == said.stdout.strip()
