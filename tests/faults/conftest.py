"""Tools to break things on purpose."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import viewgap.fsio as fsio
from viewgap.errors import ModelFileError
from viewgap.methods.base import MultiViewClassifier
from viewgap.methods.late_fusion_ridge import LateFusionRidge
from viewgap.model_file import load_model, save_model

WRITING = {"open", "write", "fsync", "mkdir", "rename", "replace"}


class BreakingOS:
    """The `os` module, whose n-th call that writes fails with `code`; n = 0 never fails."""

    def __init__(self) -> None:
        self.fail_at, self.code, self.calls = 0, 0, 0

    def arm(self, fail_at: int, code: int) -> None:
        self.fail_at, self.code, self.calls = fail_at, code, 0

    @property
    def fired(self) -> bool:
        return 0 < self.fail_at <= self.calls

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._counted(real) if name in WRITING else real

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self.fail_at:
                raise OSError(self.code, os.strerror(self.code))
            return real(*args, **options)

        return call


@pytest.fixture
def breaking_os(monkeypatch: pytest.MonkeyPatch) -> BreakingOS:
    """Put a `BreakingOS` under `viewgap.fsio`."""
    broken = BreakingOS()
    monkeypatch.setattr(fsio, "os", broken)
    return broken


X = {name: np.random.default_rng(dim).normal(size=(30, dim)) for name, dim in [("a", 3), ("b", 2)]}
Y = (X["a"][:, :2] > 0).astype(float)


class SavedModel:
    """A saved model, and tools to spoil it as an attacker would: with matching checksums."""

    def __init__(self, folder: Path, model: MultiViewClassifier) -> None:
        self.folder, self.model = folder, model
        save_model(model, folder, overwrite=True)
        self.original = {entry.name: entry.read_bytes() for entry in folder.iterdir()}

    def views(self) -> dict[str, np.ndarray]:
        """Return the views it was fitted on."""
        return dict(X)

    def labels(self) -> np.ndarray:
        """Return the labels it was fitted on."""
        return Y

    def write(self, name: str, data: bytes) -> None:
        """Replace one file and nothing else."""
        (self.folder / name).write_bytes(data)

    def restore(self) -> None:
        for name, data in self.original.items():
            self.write(name, data)

    def forge(self, name: str, data: bytes) -> None:
        """Replace one file and make the checksums fit."""
        self.write(name, data)
        checksums = {}
        for each in ("model.json", "weights.safetensors"):
            content = (self.folder / each).read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            checksums[each] = {"bytes": len(content), "sha256": digest}
        if name != "checksums.json":
            self.write("checksums.json", json.dumps(checksums).encode())

    def forge_description(self, **changes: Any) -> None:
        """Change keys of model.json (`...` removes a key)."""
        description = json.loads(self.original["model.json"]) | changes
        kept = {key: value for key, value in description.items() if value is not ...}
        self.forge("model.json", json.dumps(kept).encode())

    def forge_arrays(self, **changes: np.ndarray) -> None:
        """Change arrays of the tensor file."""
        arrays = safetensors.numpy.load(self.original["weights.safetensors"])
        named = {name.replace("_dot_", "."): array for name, array in changes.items()}
        self.forge("weights.safetensors", safetensors.numpy.save(arrays | named))

    def forge_header(self, header: dict[str, Any], data: bytes = b"") -> None:
        """Write a tensor file with any header."""
        text = json.dumps(header).encode()
        self.forge("weights.safetensors", struct.pack("<Q", len(text)) + text + data)

    def outcome(self) -> str:
        """Load: `refused`, or `equal` when the model still answers as before."""
        try:
            loaded = load_model(self.folder)
        except ModelFileError:
            return "refused"
        np.testing.assert_array_equal(loaded.predict_proba(X), self.model.predict_proba(X))
        return "equal"


@pytest.fixture
def save(tmp_path: Path) -> Callable[[MultiViewClassifier], SavedModel]:
    """Save a fitted model, in the place of the one before."""
    return lambda model: SavedModel(tmp_path / "model", model)


@pytest.fixture
def saved(save: Callable[[MultiViewClassifier], SavedModel]) -> SavedModel:
    """Return a small saved model that can be spoiled."""
    return save(LateFusionRidge(random_state=0).fit(X, Y))
