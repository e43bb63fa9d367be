"""Models on the hub, over HTTP: only fixed files go there and back, verified; names escaped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from hub_server import TOKEN, Hub, serve_hub
from viewgap.cli import run
from viewgap.errors import ModelFileError, RunError, SettingError
from viewgap.hub_download import FILES

pytest.importorskip("huggingface_hub")
REPO = "owner/name"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub on this machine, which `huggingface_hub` takes for the real one, and an empty cache."""
    from huggingface_hub import constants

    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with serve_hub() as running:
        _point_at(running.address, monkeypatch)
        yield running


def _point_at(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture(scope="module")
def model() -> viewgap.LateFusionRidge:
    x = np.random.default_rng(0).normal(size=(40, 2))
    views = {"a|<b>": x, "c": x}
    return viewgap.LateFusionRidge(random_state=0).fit(views, (x > 0).astype(float))


def new_rows() -> dict[str, Any]:
    x = np.random.default_rng(1).normal(size=(5, 2))
    return {"a|<b>": x, "c": x}


def same(model: Any, other: Any) -> bool:
    return np.array_equal(model.predict_proba(new_rows()), other.predict_proba(new_rows()))


def test_a_model_comes_back_as_it_was_by_branch_and_by_commit(hub: Hub, model: Any) -> None:
    address = viewgap.push_to_hub(model, REPO, commit_message="A first model")
    commit = address.rpartition("/")[2]
    assert address == f"{hub.address}/{REPO}/commit/{commit}"
    assert set(hub.files(REPO)) == {*FILES, "README.md"}
    assert hub.messages == ["A first model"]
    for revision in ("", "@main", f"@{commit}"):
        assert same(viewgap.load_model(f"hf://{REPO}{revision}"), model)
    assert not hub.leaked


def test_a_later_commit_is_what_the_branch_gives_and_the_first_one_stays(
    hub: Hub, model: Any
) -> None:
    first = viewgap.push_to_hub(model, REPO).rpartition("/")[2]
    x = np.random.default_rng(2).normal(size=(30, 2))
    other = viewgap.LateFusionRidge(random_state=0).fit({"a|<b>": x, "c": x}, (x > 1).astype(float))
    assert same(viewgap.load_model(f"hf://{REPO}"), model)
    viewgap.push_to_hub(other, REPO)
    assert same(viewgap.load_model(f"hf://{REPO}"), other)
    assert same(viewgap.load_model(f"hf://{REPO}@{first}"), model)


def test_only_the_three_files_are_asked_for_and_what_the_cache_has_is_not_again(
    hub: Hub, model: Any, tmp_path: Path
) -> None:
    commit = viewgap.push_to_hub(model, REPO).rpartition("/")[2]
    hub.files(REPO)["setup.py"] = b"raise SystemExit"
    hub.requests.clear()
    viewgap.load_model(f"hf://{REPO}")
    asked = {line.rpartition("/")[2] for line in hub.requests if "/resolve/" in line}
    assert asked == set(FILES)
    snapshot = tmp_path / "cache" / "models--owner--name" / "snapshots" / commit
    assert all((snapshot / name).is_symlink() for name in FILES)

    hub.requests.clear()
    assert same(viewgap.load_model(f"hf://{REPO}"), model)
    assert not any(line.startswith("GET /owner/name/resolve/") for line in hub.requests)
    hub.requests.clear()
    hub.busy = True
    assert same(viewgap.load_model(f"hf://{REPO}@{commit}"), model)  # a commit never changes
    assert hub.requests == []


def test_a_cache_without_links_is_read_as_well(
    hub: Hub, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import file_download

    monkeypatch.setattr(file_download, "are_symlinks_supported", lambda *_: False)
    viewgap.push_to_hub(model, REPO)
    assert same(viewgap.load_model(f"hf://{REPO}"), model)


def test_the_card_says_what_the_model_is_and_escapes_names(hub: Hub, model: Any) -> None:
    viewgap.push_to_hub(model, REPO)
    card = hub.files(REPO)["README.md"].decode()
    assert card.startswith("---\nlibrary_name: viewgap\n")
    assert r"a\|\<b\>" in card
    assert "<b>" not in card
    assert "40 samples" in card


def test_a_damaged_download_is_refused_and_the_advice_repairs_it(hub: Hub, model: Any) -> None:
    viewgap.push_to_hub(model, REPO)
    hub.damage_weights()
    with pytest.raises(ModelFileError, match="is damaged: expected SHA-256") as caught:
        viewgap.load_model(f"hf://{REPO}")
    with pytest.raises(ModelFileError, match="delete the folder"):
        viewgap.info(f"hf://{REPO}")
    hub.damage_weights()  # the same bits once more: whole again
    with pytest.raises(ModelFileError):  # the cache keeps what it has
        viewgap.load_model(f"hf://{REPO}")
    folder = str(caught.value).partition("delete the folder ")[2].partition(" and load")[0]
    shutil.rmtree(folder)
    assert same(viewgap.load_model(f"hf://{REPO}"), model)


def test_a_download_that_ends_early_is_refused_and_not_kept(hub: Hub, model: Any) -> None:
    viewgap.push_to_hub(model, REPO)
    hub.truncate = 5
    with pytest.raises(ModelFileError, match="cannot be downloaded"):
        viewgap.load_model(f"hf://{REPO}")
    hub.truncate = 0
    assert same(viewgap.load_model(f"hf://{REPO}"), model)


@pytest.mark.parametrize("address", ["hf://name", "hf://../name", "hf://a/b/c", "hf://a/b@"])
def test_other_addresses_are_refused_without_a_request(hub: Hub, address: str) -> None:
    with pytest.raises(ModelFileError, match="expected hf://owner/name"):
        viewgap.load_model(address)
    assert hub.requests == []


def test_what_the_hub_refuses_is_said_in_one_line(hub: Hub, model: Any) -> None:
    viewgap.push_to_hub(model, REPO)
    del hub.files(REPO)["model.json"]
    for address, words in (
        ("hf://owner/name@v9", "it has no such revision .*Invalid rev id: v9"),
        ("hf://owner/name@" + 40 * "0", "it has no such revision"),
        ("hf://owner/other", "no such repository, or it is private.*HF_TOKEN"),
        ("hf://owner/name", "it holds no model of viewgap"),
    ):
        with pytest.raises(ModelFileError, match=words) as caught:
            viewgap.load_model(address)
        assert "\n" not in str(caught.value)


def test_a_wrong_token_and_a_busy_server_are_said(hub: Hub, model: Any) -> None:
    with pytest.raises(RunError, match=r"owner/name cannot be uploaded.*401") as caught:
        viewgap.push_to_hub(model, REPO, token="hf_wrong_one")
    assert "hf_wrong_one" not in str(caught.value)
    hub.busy = True
    with pytest.raises(RunError, match="503"):
        viewgap.push_to_hub(model, REPO)
    with pytest.raises(ModelFileError, match="503"):
        viewgap.load_model(f"hf://{REPO}")


def test_a_server_that_cannot_be_reached_is_said(
    hub: Hub, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_hub() as gone:
        pass
    _point_at(gone.address, monkeypatch)
    for call in (
        lambda: viewgap.load_model(f"hf://{REPO}"),
        lambda: viewgap.load_model(f"hf://{REPO}@{40 * '1'}"),
        lambda: viewgap.push_to_hub(model, REPO),
    ):
        with pytest.raises((ModelFileError, RunError), match="the server cannot be reached"):
            call()


def test_a_repository_needs_an_owner(model: Any) -> None:
    with pytest.raises(SettingError, match="owner/name"):
        viewgap.push_to_hub(model, "name")


def test_commands_take_addresses(
    hub: Hub, model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    viewgap.save_model(model, tmp_path / "model")
    assert run(["push", str(tmp_path / "model"), REPO]) == 0
    assert run(["info", f"hf://{REPO}"]) == 0
    assert "late_fusion_ridge" in capsys.readouterr().out
    assert run(["info", f"hf://{REPO}@v9"]) == 1
    assert "no such revision" in capsys.readouterr().err


def test_a_new_process_with_hf_endpoint_alone_pushes_and_loads(
    hub: Hub, model: Any, tmp_path: Path
) -> None:
    viewgap.save_model(model, tmp_path / "model")
    script = """
import sys
from viewgap.cli import run
assert run(["push", sys.argv[1], "owner/name"]) == 0
assert run(["info", "hf://owner/name", "--json"]) == 0
"""
    own = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "model")],
        env=os.environ | own | {"HF_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"late_fusion_ridge"' in done.stdout
    assert any((tmp_path / "home").rglob("model.json"))
