"""A forged ensemble costs nothing but an error: its members, weights and leaderboard."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from peak_memory import memory_below
from viewgap.ensemble import Ensemble
from viewgap.errors import ModelFileError
from viewgap.model_file import load_model

MEMBERS = {
    "late_fusion_ridge": {},
    "scsd": {"max_epochs": 1, "hidden": (8,), "embedding": 8, "codebook_size": 4},
}


@pytest.fixture(scope="module")
def fitted() -> Ensemble:
    rng = np.random.default_rng(0)
    X = {name: np.asarray(rng.normal(size=(30, dim))) for name, dim in [("a", 3), ("b", 2)]}
    return Ensemble(methods=MEMBERS, device="cpu", random_state=0).fit(X, X["a"][:, :2] > 0)


@pytest.fixture
def saved(save: Any, fitted: Ensemble) -> Any:
    return save(fitted)


def refused(saved: Any, most_megabytes: float = 40) -> str:
    expected = pytest.raises(ModelFileError, match=r"usable model|NaN or infinity")
    with memory_below(most_megabytes * 2**20), expected as caught:
        load_model(saved.folder)
    return str(caught.value)


Change = Callable[[dict[str, Any]], Any]


def member(number: int, **changes: Any) -> Change:
    return lambda metadata: metadata["members"][number].update(changes)


def params(number: int, **changes: Any) -> Change:
    return lambda metadata: metadata["members"][number]["params"].update(changes)


def settings(**changes: Any) -> Change:
    return lambda metadata: metadata["members"][1]["metadata"]["settings"].update(changes)


def line(**changes: Any) -> Change:
    return lambda metadata: metadata["leaderboard"][0].update(changes)


LIES: dict[str, Change] = {
    "a member that is an ensemble": member(0, method="ensemble"),
    "a member that is a module": member(0, method="os"),
    "a member that is a helper": member(0, method="_blocks"),
    "a member that is a list": member(0, method=["scsd"]),
    "a member of another kind": member(0, method="extra_trees"),
    "a member twice": lambda m: m["members"].__setitem__(1, m["members"][0]),
    "a member too few": lambda m: m["members"].pop(),
    "a member too many": lambda m: m["members"].append({"method": "label_frequency"}),
    "no members": lambda m: m.update(members=[]),
    "members that are a mapping": lambda m: m.update(members={"scsd": {}}),
    "members that are text": lambda m: m.update(members=["scsd", "late_fusion_ridge"]),
    "members without end": lambda m: m.update(members=[{}] * 100_000),
    "a member without parameters": lambda m: m["members"][0].pop("params"),
    "parameters that are a list": member(0, params=[]),
    "a parameter that does not exist": params(0, __class__="evil"),
    "a parameter out of range": params(0, penalties=[-1.0]),
    "a callback": params(1, callbacks=["os.system"]),
    "metadata that is text": member(0, metadata="x"),
    "networks without end": settings(n_networks=10_000),
    "layers without end": settings(hidden={"$tuple": [8] * 10_000}),
    "a layer without end": settings(hidden={"$tuple": [10**9]}),
    "no leaderboard": lambda m: m.pop("leaderboard"),
    "an empty leaderboard": lambda m: m.update(leaderboard=[]),
    "a leaderboard without end": lambda m: m.update(leaderboard=m["leaderboard"] * 10_000),
    "a leaderboard of text": lambda m: m.update(leaderboard=["a", "b"]),
    "a score that is text": line(score="high"),
    "a score that is no number": line(score={"$float": "nan"}),
    "a note that is a list": line(note=[1]),
    "a column that does not exist": line(seconds=1.0),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_description(saved: Any, lie: str) -> None:
    metadata = json.loads(saved.original["model.json"])["metadata"]
    LIES[lie](metadata)
    saved.forge_description(metadata=metadata)
    refused(saved)


ARRAYS: dict[str, dict[str, np.ndarray]] = {
    "a weight too many": {"weights": np.full(3, 0.3)},
    "weights in a square": {"weights": np.ones((2, 1))},
    "weights of another type": {"weights": np.ones(2, dtype=np.float32)},
    "a weight below zero": {"weights": np.array([0.5, -0.5])},
    "a weight of zero": {"weights": np.array([0.5, 0.0])},
    "a weight that is infinite": {"weights": np.array([0.5, np.inf])},
    "a threshold too many": {"thresholds": np.full(3, 0.5)},
    "a threshold that is no number": {"thresholds": np.array([0.5, np.nan])},
    "a member's array of another shape": {"0/weights_dot_0": np.zeros((4, 2))},
}


@pytest.mark.parametrize("lie", ARRAYS)
def test_lying_arrays(saved: Any, lie: str) -> None:
    saved.forge_arrays(**ARRAYS[lie])
    refused(saved)


def test_arrays_of_members_that_are_missing(saved: Any) -> None:
    arrays = safetensors.numpy.load(saved.original["weights.safetensors"])
    for prefix in ("0/", "1/network/"):
        kept = {name: array for name, array in arrays.items() if not name.startswith(prefix)}
        saved.forge("weights.safetensors", safetensors.numpy.save(kept))
        refused(saved)


def test_the_untouched_file_is_loaded(saved: Any, fitted: Ensemble) -> None:
    loaded: Any = load_model(saved.folder)
    assert loaded.weights_ == fitted.weights_
    assert list(loaded.members_) == ["late_fusion_ridge", "scsd"]
