"""Saves a small model of every method, with its answers, for tests/test_kept_models.py.

    python tools/keep_models.py tests/models/format_3

A model folder that users have must be read by every later version, and answer as it did. So the
models of every release, and of every format of the model file, are kept in the tests. Run this when
the format changes (into a new folder) or a method is added (it writes what is not there yet); never
to make a failing test pass. Models of an older release come from its own code, on PYTHONPATH.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import viewgap
import viewgap.methods as methods
from viewgap.model_file import load_model, save_model

SMALL: dict[str, Any] = {
    "batch_size": 16,
    "code_dim": 2,
    "codebook_size": 4,
    "device": "cpu",
    "embedding": 8,
    "feed_forward": 4,
    "hidden": (4,),
    "layers": 1,
    "max_epochs": 2,
    "max_iter": 10,
    "n_estimators": 2,
    "n_networks": 2,
    "random_state": 0,
    "references": 8,
    "wide": 4,
}
MEMBERS: dict[str, Any] = {"late_fusion_ridge": {}, "extra_trees": {"n_estimators": 2}}
WITH_SETS = "late_fusion_ridge"
OWN: dict[str, dict[str, Any]] = {"ensemble": {"methods": MEMBERS}}


def data(n: int, seed: int) -> tuple[dict[str, Any], Any]:
    """Two views with absent rows, three labels with unobserved entries; the numbers are short."""
    rng = np.random.default_rng(seed)
    X = {"a": rng.normal(size=(n, 3)).round(3), "b": rng.normal(size=(n, 2)).round(3)}
    Y = np.column_stack([X["a"][:, 0] > 0, X["b"][:, 0] > 0, X["a"][:, 1] > 0.5]).astype(float)
    X["a"][::4], X["b"][1::3] = np.nan, np.nan
    both = np.isnan(X["a"][:, 0]) & np.isnan(X["b"][:, 0])
    X["a"][both] = 0.25
    Y[2::5, 1] = np.nan
    return X, Y


def fitted(name: str) -> Any:
    """A small model of a method."""
    kind = methods.get(name)
    known = kind._get_param_names()
    settings = {key: value for key, value in SMALL.items() if key in known} | OWN.get(name, {})
    return kind(**settings, nan="missing_view").fit(*data(40, 0))


def keep(folder: Path, name: str) -> None:
    """Save a model and what it answers."""
    save_model(fitted(name), folder / name)
    X, _ = data(8, 1)
    expected = load_model(folder / name).predict_proba(X)
    answers = {"probabilities": np.asarray(expected).tolist()}
    (folder / f"{name}.json").write_text(json.dumps(answers) + "\n", encoding="utf-8")


def keep_label_sets(folder: Path, name: str) -> None:
    """Calibrate label sets for a kept model, and save them with their answers."""
    sets = viewgap.LabelSets(load_model(folder / name), target_level=0.7)
    sets.calibrate(*data(150, 2))
    sets.save(folder / f"{name}.sets.json")
    path = folder / f"{name}.json"
    answers = json.loads(path.read_text(encoding="utf-8"))
    answers["sets"] = np.asarray(sets.predict(data(8, 1)[0])).tolist()
    path.write_text(json.dumps(answers) + "\n", encoding="utf-8")


def main() -> None:
    """Write the models that the folder does not have."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name in methods.names():
        if not (folder / name).exists():
            keep(folder, name)
    if not (folder / f"{WITH_SETS}.sets.json").exists():
        keep_label_sets(folder, WITH_SETS)
    print(f"viewgap {viewgap.__version__}: {len(methods.names())} methods in {folder}")


if __name__ == "__main__":
    main()
