"""F52: settings of a model file that ask for more than its arrays are refused before the work."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from viewgap import methods
from viewgap.errors import ModelFileError, SettingError
from viewgap.methods import deep
from viewgap.model_file import load_model, save_model

RNG = np.random.default_rng(0)
X = {"a": RNG.normal(size=(40, 4)), "b": RNG.normal(size=(40, 3))}
Y = (X["a"][:, :2] > 0).astype(float)
SMALL: dict[str, dict[str, Any]] = {
    "scsd": {"hidden": (8,), "embedding": 8, "codebook_size": 4, "n_networks": 2},
    "lmvcat": {"embedding": 8, "layers": 1, "heads": 2, "feed_forward": 8},
    "imvwl": {"max_iter": 2, "subspace": 4},
    "naim3l": {"max_iter": 2, "components": 2},
}


def forge(folder: Path, method: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Save a small model, change its description, and make the checksums fit."""
    limits = {"max_epochs": 1} if "max_epochs" in methods.get(method)._get_param_names() else {}
    model = methods.get(method)(random_state=0, **SMALL[method], **limits).fit(X, Y)
    save_model(model, folder)
    description = json.loads((folder / "model.json").read_text())
    change(description)
    (folder / "model.json").write_text(json.dumps(description))
    contents = {
        name: (folder / name).read_bytes() for name in ("model.json", "weights.safetensors")
    }
    checksums = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in contents.items()
    }
    (folder / "checksums.json").write_text(json.dumps(checksums))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the linear layers that are made while a model is loaded."""
    made = [0]
    real = torch.nn.Linear.__init__

    @functools.wraps(real)
    def counting(self: Any, *args: Any, **options: Any) -> None:
        made[0] += 1
        if made[0] > 20_000:
            raise AssertionError("the loader builds whatever the settings ask for")
        real(self, *args, **options)

    monkeypatch.setattr(torch.nn.Linear, "__init__", counting)
    return made


@pytest.mark.parametrize(
    ("method", "setting", "value"),
    [
        ("scsd", "n_networks", 10**6),
        ("scsd", "hidden", {"$tuple": [8] * 100_000}),
        ("scsd", "hidden", {"$range": [8, 2**20, 1]}),
        ("lmvcat", "layers", 10**6),
    ],
)
def test_more_layers_than_arrays(
    tmp_path: Path, method: str, setting: str, value: Any, calls: list[int]
) -> None:
    def change(description: dict[str, Any]) -> None:
        description["metadata"]["settings"][setting] = value

    forge(tmp_path / "model", method, change)
    calls[0] = 0
    with pytest.raises(ModelFileError, match="does not describe a usable model"):
        load_model(tmp_path / "model")
    assert calls[0] < 5_000


@pytest.mark.parametrize("method", SMALL)
def test_more_views_than_arrays(tmp_path: Path, method: str, calls: list[int]) -> None:
    def change(description: dict[str, Any]) -> None:
        description["view_names"] = [f"v{i}" for i in range(100_000)]
        description["view_dims"] = [1] * 100_000

    forge(tmp_path / "model", method, change)
    calls[0] = 0
    with pytest.raises(ModelFileError, match="does not describe a usable model"):
        load_model(tmp_path / "model")
    assert calls[0] < 5_000


@pytest.mark.parametrize(
    ("fact", "value"),
    [("objective", {"$range": [0, 2**20, 1]}), ("objective", "zzz"), ("settings", [])],
)
def test_the_course_of_a_solver_is_checked(tmp_path: Path, fact: str, value: Any) -> None:
    forge(
        tmp_path / "model",
        "naim3l",
        lambda description: description["metadata"].update({fact: value}),
    )
    with pytest.raises(ModelFileError, match="does not describe a usable model"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("history", [1.0]),
        ("history", {"loss": {"$range": [0, 5, 1]}}),
        ("history", {"loss": ["x"]}),
        ("best_epoch", "zzz"),
        ("n_epochs", True),
        ("n_epochs", -1),
    ],
)
def test_the_course_of_a_training_is_checked(tmp_path: Path, fact: str, value: Any) -> None:
    forge(
        tmp_path / "model",
        "scsd",
        lambda description: description["metadata"].update({fact: value}),
    )
    with pytest.raises(ModelFileError, match="does not describe a usable model"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("value", [[True], {"a": 1}, "zzz", 5])
def test_a_precision_that_does_not_exist(tmp_path: Path, value: Any) -> None:
    forge(
        tmp_path / "model",
        "scsd",
        lambda description: description["params"].update(precision=value),
    )
    with pytest.raises(ModelFileError, match="does not describe a usable model"):
        load_model(tmp_path / "model")


def test_steps_that_would_not_end(tmp_path: Path) -> None:
    def change(description: dict[str, Any]) -> None:
        description["metadata"]["settings"]["code_steps"] = 10**9

    forge(tmp_path / "model", "imvwl", change)
    with pytest.raises(ModelFileError, match="code_steps"):
        load_model(tmp_path / "model")
    with pytest.raises(SettingError, match="code_steps"):
        methods.get("imvwl")(code_steps=10**9, max_iter=1).fit(X, Y)


def test_the_limit_leaves_room_for_every_network(monkeypatch: pytest.MonkeyPatch) -> None:
    used: dict[str, float] = {}
    real = deep._BuildLimit.__exit__

    def leaving(self: Any, *error: Any) -> Any:
        used[name] = self.left / self.given
        return real(self, *error)

    start = deep._BuildLimit.__init__

    def starting(self: Any, n_tensors: int) -> None:
        start(self, n_tensors)
        self.given = self.left

    monkeypatch.setattr(deep._BuildLimit, "__init__", starting)
    monkeypatch.setattr(deep._BuildLimit, "__exit__", leaving)
    for name in methods.names():
        if issubclass(methods.get(name), deep.DeepClassifier):
            model = methods.get(name)(max_epochs=1, random_state=0).fit(X, Y)
            model._set_state(model._get_state())
    assert len(used) >= 9
    assert min(used.values()) > 0.4
