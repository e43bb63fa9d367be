"""A fitted estimator in a notebook; one that is not fitted is shown by scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from viewgap.notebook import card, escape, number_text, soft, table

_MOST_LABELS = 8
_LONGEST = 80


class NotebookCard:
    """Mixin before scikit-learn's base: its switch `display` still decides whether there is HTML.

    scikit-learn asks `_html_repr` (`_repr_html_inner` before 1.7) for the page and makes the rest.
    """

    def _html_repr(self) -> str:
        fitted = getattr(self, "is_fitted_", False)
        return estimator_html(self) if fitted else self._unfitted_html()

    def _unfitted_html(self) -> str:
        from sklearn.utils import estimator_html_repr

        text: str = estimator_html_repr(self)
        return text

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Text, and HTML unless scikit-learn's setting `display` is "text"."""
        from sklearn import get_config

        bundle = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._html_repr()
        return bundle


def estimator_html(model: Any) -> str:
    """Parameters that differ from the defaults, scores, views and labels of a fitted model."""
    parts = [_parameters(model), _scores(model), _leaderboard(model), _views(model), _labels(model)]
    head = f"<b>{escape(type(model).__name__)}</b> {soft(_summary(model))}"
    return card(head, *(part for part in parts if part))


def _summary(model: Any) -> str:
    n_samples = getattr(model, "n_samples_fit_", None)
    fitted = "fitted" if n_samples is None else f"fitted on {n_samples:,} samples"
    return f"{fitted}, {len(model.view_names_)} views, {len(model.label_names_)} labels"


def _parameters(model: Any) -> str:
    differs = model._changed_params()
    if not differs:
        return f"<p>{soft('all parameters at their defaults')}</p>"
    return table(("parameter", "value"), [(name, _short(value)) for name, value in differs.items()])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _scores(model: Any) -> str:
    """What the fit itself says about how good it is."""
    lines: list[tuple[str, object]] = []
    history: Mapping[str, list[float]] = getattr(model, "history_", {})
    best = getattr(model, "best_epoch_", 0)
    scores = history.get("validation_score", [])
    if 0 < best <= len(scores):
        lines.append(("validation score (epochs are chosen by it)", float(scores[best - 1])))
        lines.append(("epoch", f"{best} of {len(scores)}"))
    if hasattr(model, "converged_"):
        lines.append(("converged", bool(model.converged_)))
    return table(("fit", ""), lines) if lines else ""


def _leaderboard(model: Any) -> str:
    """The members of an ensemble with their out-of-fold scores."""
    board = getattr(model, "leaderboard_", None)
    if board is None:
        return ""
    shown = [name for name in ("method", "score", "spread", "weight") if name in board.columns]
    lines = board[shown].astype(object).to_numpy().tolist()
    return soft("average precision of the training samples, out of fold") + table(shown, lines)


def _views(model: Any) -> str:
    weights = getattr(model, "view_weights_", None)
    single = getattr(model, "n_missing_cells_", {})
    columns: list[str] = ["view", "columns", "missing values"]
    lines: list[list[object]] = [
        [name, int(dim), int(single.get(name, 0))]
        for name, dim in zip(model.view_names_, model.view_dims_, strict=True)
    ]
    if weights and np.isfinite(list(weights.values())).all():
        columns.append("weight")
        lines = [[*line, float(weights[line[0]])] for line in lines]
    return table(columns, lines)


def _labels(model: Any) -> str:
    """The labels with their share of positives in training, a few of many."""
    names, frequency = model.label_names_, np.asarray(model.label_frequency_)
    order = np.argsort(-np.nan_to_num(frequency, nan=-1.0), kind="stable")[:_MOST_LABELS]
    shown = [f"{names[j]} {number_text(round(float(frequency[j]), 4))}" for j in order]
    more = len(names) - len(shown)
    text = ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
    return f"<p>{soft('labels, share of positives:')} {escape(text)}</p>"
