"""Models on the hub: only fixed files go there and back, verified; the card is escaped."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.cli import run
from viewgap.errors import ModelFileError, SettingError
from viewgap.hub_download import FILES

hub = pytest.importorskip("huggingface_hub")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the hub: a folder per repository, and no network."""
    root = tmp_path / "server"

    class Api:
        def __init__(self, **_: Any) -> None: ...

        def create_repo(self, repo: str, **_: Any) -> None:
            (root / repo).mkdir(parents=True, exist_ok=True)

        def create_commit(self, repo: str, operations: Any, **_: Any) -> Any:
            for own in operations:
                (root / repo / own.path_in_repo).write_bytes(own.path_or_fileobj)
            return SimpleNamespace(commit_url=f"https://hub/{repo}/commit/1")

        def model_info(self, repo: str, revision: str | None = None) -> Any:
            if revision not in (None, "main"):
                raise ValueError("404 no such revision\nmore")
            return SimpleNamespace(sha="1")

    def download(repo: str, name: str, revision: str) -> str:
        assert name in FILES
        assert revision == "1"
        return str(root / repo / name)

    monkeypatch.setattr(hub, "HfApi", Api)
    monkeypatch.setattr(hub, "hf_hub_download", download)
    return root


@pytest.fixture
def model() -> viewgap.LateFusionRidge:
    x = np.random.default_rng(0).normal(size=(40, 2))
    views = {"a|<b>": x, "c": x}
    return viewgap.LateFusionRidge(random_state=0).fit(views, (x > 0).astype(float))


def test_a_model_comes_back_as_it_was(server: Path, model: Any) -> None:
    assert viewgap.push_to_hub(model, "owner/name").endswith("commit/1")
    assert {p.name for p in (server / "owner/name").iterdir()} == {*FILES, "README.md"}
    x = np.random.default_rng(1).normal(size=(5, 2))
    views = {"a|<b>": x, "c": x}
    for address in ("hf://owner/name", "hf://owner/name@main"):
        loaded = viewgap.load_model(address)
        np.testing.assert_array_equal(loaded.predict_proba(views), model.predict_proba(views))


def test_the_card_says_what_the_model_is_and_escapes_names(server: Path, model: Any) -> None:
    viewgap.push_to_hub(model, "owner/name")
    card = (server / "owner/name/README.md").read_text()
    assert card.startswith("---\nlibrary_name: viewgap\n")
    assert r"a\|\<b\>" in card
    assert "<b>" not in card
    assert "40 samples" in card


def test_a_damaged_download_is_refused(server: Path, model: Any) -> None:
    viewgap.push_to_hub(model, "owner/name")
    file = server / "owner/name/weights.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(ModelFileError):
        viewgap.load_model("hf://owner/name")


@pytest.mark.parametrize("address", ["hf://name", "hf://../name", "hf://a/b/c", "hf://a/b@"])
def test_other_addresses_are_refused(server: Path, address: str) -> None:
    with pytest.raises(ModelFileError, match="expected hf://owner/name"):
        viewgap.load_model(address)


def test_what_the_hub_refuses_is_said_in_one_line(server: Path) -> None:
    with pytest.raises(ModelFileError, match=r"no such revision$"):
        viewgap.load_model("hf://owner/name@other")


def test_a_repository_needs_an_owner(model: Any) -> None:
    with pytest.raises(SettingError, match="owner/name"):
        viewgap.push_to_hub(model, "name")


def test_commands_take_addresses(
    server: Path, model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    viewgap.save_model(model, tmp_path / "model")
    assert run(["push", str(tmp_path / "model"), "owner/name"]) == 0
    assert run(["info", "hf://owner/name"]) == 0
    assert "late_fusion_ridge" in capsys.readouterr().out
