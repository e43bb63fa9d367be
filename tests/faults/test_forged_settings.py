"""Settings of a model file that ask for more than its arrays are refused before the work."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from viewgap import methods
from viewgap.errors import ModelFileError, SettingError
from viewgap.model_file import load_model

RNG = np.random.default_rng(0)
X = {"a": RNG.normal(size=(40, 4)), "b": RNG.normal(size=(40, 3))}
Y = (X["a"][:, :2] > 0).astype(float)
SMALL: dict[str, dict[str, Any]] = {
    "scsd": {
        "hidden": (8,),
        "embedding": 8,
        "codebook_size": 4,
        "n_networks": 2,
        "max_epochs": 1,
    },
    "lmvcat": {"embedding": 8, "layers": 1, "heads": 2, "feed_forward": 8, "max_epochs": 1},
    "cdmm": {},
    "elsmml": {"max_iter": 2},
    "imvwl": {"max_iter": 2, "subspace": 4},
    "naim3l": {"max_iter": 2, "components": 2},
}
UNUSABLE = "does not describe a usable model"


@pytest.fixture
def forge(save: Any) -> Callable[..., Any]:
    """Save a small model of a method with changes, {key: {key: value}}, in its description."""

    def forged(method: str, **changes: Any) -> Any:
        saved = save(methods.get(method)(random_state=0, **SMALL[method]).fit(X, Y))
        described = json.loads(saved.original["model.json"])
        for key, change in changes.items():
            changes[key] = described[key] | change if isinstance(change, dict) else change
        saved.forge_description(**changes)
        return saved.folder, described

    return forged


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the linear layers that are made while a model is loaded."""
    count = [0]
    real = torch.nn.Linear.__init__

    @functools.wraps(real)
    def counting(self: Any, *args: Any, **options: Any) -> None:
        count[0] += 1
        if count[0] > 20_000:
            raise AssertionError("the loader builds whatever the settings ask for")
        real(self, *args, **options)

    monkeypatch.setattr(torch.nn.Linear, "__init__", counting)
    return count


def forge_setting(forge: Any, method: str, name: str, value: Any) -> Any:
    """A model file in which one of the resolved settings has another value."""
    _, described = forge(method)
    settings = described["metadata"]["settings"] | {name: value}
    return forge(method, metadata={"settings": settings})[0]


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
    forge: Any, made: list[int], method: str, setting: str, value: Any
) -> None:
    folder = forge_setting(forge, method, setting, value)
    made[0] = 0
    with pytest.raises(ModelFileError, match=UNUSABLE):
        load_model(folder)
    assert made[0] < 5_000


@pytest.mark.parametrize("method", SMALL)
def test_more_views_than_arrays(forge: Any, made: list[int], method: str) -> None:
    names = [f"v{i}" for i in range(100_000)]
    folder, _ = forge(method, view_names=names, view_dims=[1] * len(names))
    made[0] = 0
    with pytest.raises(ModelFileError, match=UNUSABLE):
        load_model(folder)
    assert made[0] < 5_000


@pytest.mark.parametrize(
    ("method", "metadata"),
    [
        ("naim3l", {"objective": {"$range": [0, 2**20, 1]}}),
        ("naim3l", {"objective": "zzz"}),
        ("naim3l", {"converged": "zzz"}),
        ("imvwl", {"converged": None}),
        ("naim3l", {"settings": []}),
        ("cdmm", {"kernel_widths": {}}),
        ("cdmm", {"kernel_widths": {"a": -1.0, "b": 1.0}}),
        ("cdmm", {"error_weights": 1.0}),
        ("cdmm", {"threshold": 2.0}),
        ("scsd", {"history": [1.0]}),
        ("scsd", {"history": {"loss": {"$range": [0, 5, 1]}}}),
        ("scsd", {"history": {"loss": ["x"]}}),
        ("scsd", {"best_epoch": "zzz"}),
        ("scsd", {"n_epochs": True}),
        ("scsd", {"n_epochs": -1}),
    ],
)
def test_the_history_of_a_fit_is_checked(forge: Any, method: str, metadata: Any) -> None:
    folder, _ = forge(method, metadata=metadata)
    with pytest.raises(ModelFileError, match=UNUSABLE):
        load_model(folder)


@pytest.mark.parametrize("value", [[True], {"a": 1}, "zzz", 5])
def test_a_precision_that_does_not_exist(forge: Any, value: Any) -> None:
    folder, _ = forge("scsd", params={"precision": value})
    with pytest.raises(ModelFileError, match=UNUSABLE):
        load_model(folder)


def test_steps_that_would_not_end(forge: Any) -> None:
    folder = forge_setting(forge, "imvwl", "code_steps", 10**9)
    with pytest.raises(ModelFileError, match="code_steps"):
        load_model(folder)
    with pytest.raises(SettingError, match="code_steps"):
        methods.get("imvwl")(code_steps=10**9, max_iter=1).fit(X, Y)
