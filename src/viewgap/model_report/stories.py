"""What views contribute on sampled rows, and a few samples with their answers in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError
from viewgap.methods.base import MultiViewClassifier

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

MOST_ROWS = 200
MOST_LABELS = 6


@dataclass(frozen=True)
class Contributions:
    """Mean absolute contribution of every view to every label, over sampled rows.

    Attributes
    ----------
    by_label : array of shape (views, labels)
        A view that a sample lacks contributes 0 to it.
    values : array of shape (rows, labels, views)
    rows : array of int
        The rows of the data that were explained.
    reason : str
        Why there are none; empty where there are.
    """

    by_label: Floats
    values: Floats
    rows: NDArray[np.intp]
    reason: str = ""


@dataclass(frozen=True)
class Story:
    """One sample: why it is shown, its views, and its labels with what the views contribute."""

    title: str
    sample: str
    views: list[tuple[str, bool]]
    lines: list[dict[str, Any]]


def contributions(
    model: MultiViewClassifier, views: ViewSet, wanted: NDArray[np.intp], seed: int = 0
) -> Contributions:
    """Explain at most 200 rows with a view, `wanted` among them."""
    n_labels, n_views = len(model.label_names_), views.n_views
    rng = np.random.default_rng(seed)
    others = rng.permutation(np.setdiff1d(np.flatnonzero(views.has_view), wanted))
    rows = np.sort(np.concatenate([wanted, others[: max(0, MOST_ROWS - len(wanted))]]))
    try:
        table = _explained(model, views[rows])
    except SettingError as error:
        nothing = np.zeros((0, n_labels, n_views))
        return Contributions(np.zeros((n_views, n_labels)), nothing, rows[:0], str(error))
    values = table["contribution"].to_numpy().reshape(len(rows), n_labels, n_views)
    values = np.nan_to_num(values)  # labels never observed in training
    mean = np.abs(values).mean(axis=0).T if len(rows) else np.zeros((n_views, n_labels))
    return Contributions(mean, values, rows)


def _explained(model: MultiViewClassifier, views: ViewSet) -> pd.DataFrame:
    from viewgap.explanation import explain

    return explain(model, views)


def choose_samples(
    views: ViewSet, truth: Floats | None, probabilities: Floats, limits: Floats
) -> dict[str, int]:
    """Rows worth reading, each once: title to row."""
    error, doubt = _errors(truth, probabilities), _doubt(probabilities)
    n_views = views.observed.sum(axis=1).astype(float)
    usable = views.has_view
    ranked: dict[str, Floats] = {}
    if truth is not None:
        wrong = ((probabilities > limits) != (truth == 1)) & ~np.isnan(truth)
        has_positive = (truth == 1).any(axis=1)
        ranked["Confident and right"] = np.where(wrong.any(axis=1) | ~has_positive, np.inf, error)
        ranked["Confident and wrong"] = np.where(wrong.any(axis=1), -error, np.inf)
    else:
        ranked["Most certain"] = doubt
    ranked["Most uncertain"] = -doubt
    ranked["Fewest views"] = n_views + (0.0 if truth is None else (error == -1) * 1000.0)
    found: dict[str, int] = {}
    for title, order in ranked.items():
        cost = np.where(usable, order, np.inf)
        cost[list(found.values())] = np.inf
        if len(cost) and np.isfinite(cost.min()):
            found[title] = int(cost.argmin())
    return found


def _errors(truth: Floats | None, probabilities: Floats) -> Floats:
    """Largest distance of a probability from its observed label; -1 without any."""
    if truth is None:
        return np.zeros(len(probabilities))
    distance = np.abs(truth - probabilities)
    return np.asarray(np.where(np.isnan(distance), -1.0, distance).max(axis=1, initial=-1.0))


def _doubt(probabilities: Floats) -> Floats:
    known = np.nan_to_num(probabilities, nan=0.0)
    return np.asarray((known * (1 - known)).sum(axis=1))


def tell(
    model: MultiViewClassifier,
    views: ViewSet,
    truth: Floats | None,
    probabilities: Floats,
    limits: Floats,
    chosen: dict[str, int],
    explained: Contributions,
) -> list[Story]:
    """The chosen samples with the labels that matter most about them."""
    places = {int(row): place for place, row in enumerate(explained.rows)}
    stories = []
    for title, row in chosen.items():
        said = probabilities[row]
        label = np.full(len(said), np.nan) if truth is None else truth[row]
        weight = np.nan_to_num(said, nan=-1.0) + 2.0 * (label == 1) + 1.0 * (said > limits)
        lines = [
            {
                "label": model.label_names_[j],
                "probability": float(said[j]),
                "threshold": float(limits[j]),
                "decided": bool(said[j] > limits[j]),
                "observed": None if np.isnan(label[j]) else bool(label[j]),
                "base": float(model.label_frequency_[j]),
                "contributions": None
                if row not in places
                else explained.values[places[row], j].tolist(),
            }
            for j in np.argsort(-weight, kind="stable")[:MOST_LABELS]
            if not np.isnan(said[j])
        ]
        there = [bool(flag) for flag in views.observed[row]]
        pairs = list(zip(views.names, there, strict=True))
        stories.append(Story(title, str(views.sample_ids[row]), pairs, lines))
    return stories
