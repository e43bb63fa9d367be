"""What a saved model is: its data, settings, versions, scores and labels, without loading it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

import viewgap.model_folder as model_folder
from viewgap.hub_download import held_folder
from viewgap.methods.catalogue import read_metadata
from viewgap.model_file import ModelDescription, read_description

_OF_MEMBERS = ("method", "score", "spread", "weight", "note")


@dataclass(frozen=True)
class ModelInfo:
    """A saved model in words and numbers. What older files do not hold is None.

    Attributes
    ----------
    model, method, summary : str
        The folder, the name of the method and its idea in one line.
    viewgap : str
        Version of viewgap that wrote it.
    saved : str
        When `model.json` was written, as the file system says (UTC).
    interrupted : bool
        Whether a signal ended the fit early.
    resume : str or None
        The command that goes on with a fit that was interrupted, if it had a checkpoint; in the
        folder where that was begun.
    n_samples : int or None
        Samples learned from.
    profile : str or None
        The profile of the settings, of methods that have profiles.
    changed : dict
        Parameters that are not at their defaults; all of them where the file does not say.
    settings : dict or None
        All settings of the fit, of methods that have profiles.
    views : list of dict
        Name, columns, whether they are named, samples that have it, single missing values.
    labels : list of dict
        Name, share of positives, threshold, observed samples, positives.
    patterns : dict of str to int, or None
        Samples per pattern of views, as in `TrainingSummary`.
    n_patterns : int or None
        How many patterns there were; `patterns` holds the 1,000 most frequent.
    scores : dict
        What the fit says about how good it is: `out_of_fold`, `validation`, `members`.
    """

    model: str
    method: str
    summary: str
    viewgap: str
    saved: str
    interrupted: bool
    resume: str | None
    n_samples: int | None
    profile: str | None
    changed: dict[str, Any]
    settings: dict[str, Any] | None
    views: list[dict[str, Any]]
    labels: list[dict[str, Any]]
    patterns: dict[str, int] | None
    n_patterns: int | None
    scores: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)


def info(path: str | os.PathLike[str]) -> ModelInfo:
    """Read what a saved model says about itself; torch is not imported.

    Parameters
    ----------
    path : str or path
        The folder of the model, or `hf://owner/name[@revision]`.

    Returns
    -------
    ModelInfo

    Examples
    --------
    >>> import tempfile, numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(30, 3))}
    >>> model = viewgap.LateFusionRidge().fit(X, (X["a"] > 0).astype(float))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     viewgap.save_model(model, f"{folder}/model")
    ...     found = viewgap.info(f"{folder}/model")
    >>> found.method, found.n_samples, found.views[0]["columns"]
    ('late_fusion_ridge', 30, 3)
    """
    with held_folder(path) as folder:
        described = read_description(folder)
    stored, training = described.stored, described.names.training_summary_
    method = str(stored["method"])
    written = (folder / model_folder.MODEL).stat().st_mtime
    profile = described.params.get("profile")
    settings = described.metadata.get("settings")
    return ModelInfo(
        model=str(folder),
        method=method,
        summary=read_metadata(method).summary,
        viewgap=str(stored["viewgap"]),
        saved=datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds"),
        interrupted=described.names.interrupted_,
        resume=_resume(described.stored),
        n_samples=None if training is None else training.n_samples,
        profile=profile if isinstance(profile, str) else None,
        changed=_changed(described),
        settings=_plain(settings) if isinstance(settings, dict) else None,
        views=_views(described),
        labels=_labels(described),
        patterns=None if training is None else training.patterns,
        n_patterns=None if training is None else training.n_patterns,
        scores=_scores(described),
    )


def _resume(stored: Mapping[str, Any]) -> str | None:
    """The command as a shell takes it; whatever the file holds, it is one of viewgap's fits."""
    words: Any = stored.get("resume")
    right = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return shlex.join(["viewgap", *words]) if right and words[:1] == ["fit"] else None


def _changed(described: ModelDescription) -> dict[str, Any]:
    """Parameters beside the profile that are not at their defaults."""
    names = described.stored.get("changed_params", list(described.params))
    changed = names if isinstance(names, list) else []
    shown = set(changed) - {"profile", "verbose"}
    values = {name: value for name, value in described.params.items() if name in shown}
    return dict(_plain(values))


def _plain(value: Any) -> Any:
    """Values of settings as JSON has them: lists for tuples, text for the rest."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    known = value is None or isinstance(value, bool | int | str)
    finite = isinstance(value, float) and bool(np.isfinite(value))
    return value if known or finite else str(value)


def _views(described: ModelDescription) -> list[dict[str, Any]]:
    names, training = described.names, described.names.training_summary_
    return [
        {
            "view": view,
            "columns": dim,
            "named": view in names.feature_names_in_,
            "samples": None if training is None else training.n_observed_views[j],
            "missing_values": None if training is None else training.n_missing_values[j],
        }
        for j, (view, dim) in enumerate(zip(names.view_names_, names.view_dims_, strict=True))
    ]


def _labels(described: ModelDescription) -> list[dict[str, Any]]:
    names, training = described.names, described.names.training_summary_
    thresholds = _thresholds(described)
    return [
        {
            "label": label,
            "frequency": None if np.isnan(frequency) else float(frequency),
            "threshold": None if thresholds is None else thresholds[j],
            "observed": None if training is None else training.n_observed_labels[j],
            "positives": None if training is None else training.n_positives[j],
        }
        for j, (label, frequency) in enumerate(
            zip(names.label_names_, names.label_frequency_, strict=True)
        )
    ]


def _thresholds(described: ModelDescription) -> list[float] | None:
    """Thresholds of `predict`; None where an older file does not say them."""
    n_labels = len(described.names.label_names_)
    if "thresholds" not in described.stored:
        return [0.5] * n_labels if described.names.training_summary_ is not None else None
    values = described.stored["thresholds"]
    right = isinstance(values, list) and all(type(value) in (int, float) for value in values)
    return list(values) if right and len(values) == n_labels else None


def _scores(described: ModelDescription) -> dict[str, Any]:
    training, metadata = described.names.training_summary_, described.metadata
    found: dict[str, Any] = {}
    if training is not None and training.scores is not None:
        found["out_of_fold"] = asdict(training.scores)
    history, best = metadata.get("history"), metadata.get("best_epoch")
    course = history.get("validation_score") if isinstance(history, dict) else None
    if isinstance(course, list) and type(best) is int and 0 < best <= len(course):
        score = {"score": float(course[best - 1]), "best_epoch": best, "epochs": len(course)}
        found["validation"] = score
    lines = metadata.get("leaderboard")
    if isinstance(lines, list) and all(isinstance(line, dict) for line in lines):
        found["members"] = [{name: line.get(name) for name in _OF_MEMBERS} for line in lines]
    return found
