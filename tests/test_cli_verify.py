"""`viewgap verify`: whole models, damaged ones, and what else a folder may be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import viewgap
from viewgap.cli import run


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data: Any = viewgap.load_dataset("synthetic")
    folder = tmp_path_factory.mktemp("model") / "model"
    viewgap.save_model(viewgap.LateFusionRidge().fit(data.views, data.labels), folder)
    return folder


def test_a_copy_is_whole_and_has_the_same_digest(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(saved, tmp_path / "copy")
    assert run(["verify", str(saved), str(copy), "--json"]) == 0
    one, two = json.loads(capsys.readouterr().out)
    assert one["usable"]
    assert one["method"] == "late_fusion_ridge"
    assert one["digest"] == two["digest"]
    assert len(one["digest"]) == 64
    assert run(["verify", str(saved)]) == 0
    assert f"{saved}: late_fusion_ridge, whole; digest {one['digest']}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors", "checksums.json"])
def test_one_changed_byte_is_told_and_the_others_are_verified(
    name: str, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = shutil.copytree(saved, tmp_path / "damaged")
    data = bytearray((damaged / name).read_bytes())
    data[len(data) // 2] ^= 1
    (damaged / name).write_bytes(data)
    assert run(["verify", str(damaged), str(saved)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{damaged}: not usable: ")
    assert ", whole; " in second


def test_what_is_no_model_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert run(["verify", str(tmp_path / "empty"), str(tmp_path / "absent")]) == 1
    out = capsys.readouterr().out
    assert out.count("not usable") == 2
