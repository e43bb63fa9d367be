"""Log-odds pooling for estimators: fitted on and applied to arrays, read from a model file."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.nn.pooling import HeldOut, LabelCounts, LogOddsPooling
from viewgap.state import State
from viewgap.training.prediction import one_thread

# Rows are filled up to a multiple of it: no number is left for the scalar end of a vectorised loop,
# which may round differently.
_BLOCK = 32
_ROWS_AT_A_TIME = 1 << 16


def fit_pooling(
    pooling: LogOddsPooling, predictions: NDArray[Any], labels: Labels, training: Labels
) -> None:
    """Fit the pooling on predictions of rows that were not trained on.

    Shape: predictions (m, n, c), NaN where a view is missing; labels (n, c) of these rows, training
    (r, c) of the training rows.
    """
    held_out = HeldOut(
        torch.from_numpy(np.nan_to_num(predictions)),
        torch.from_numpy(_observed(predictions)),
        torch.from_numpy(labels.values.astype(np.float32)),
        torch.from_numpy(np.array(labels.observed)),
    )
    counts = LabelCounts(
        torch.from_numpy(training.positive_counts()), torch.from_numpy(training.observed_counts())
    )
    with one_thread():  # the bits of a sum depend on how many threads add it up
        pooling.fit(held_out, counts)


def pooled(pooling: LogOddsPooling, predictions: NDArray[Any]) -> NDArray[np.float64]:
    """Pooled probabilities (n, c) of predictions (m, n, c), NaN where a view is missing.

    Every row for itself: no bit depends on the rows beside it.
    """
    n = predictions.shape[1]
    result = np.empty((n, predictions.shape[2]))
    with one_thread(), torch.inference_mode():
        for start in range(0, n, _ROWS_AT_A_TIME):
            part = slice(start, start + _ROWS_AT_A_TIME)
            result[part] = _pooled(pooling, predictions[:, part])
    return result


def _pooled(pooling: LogOddsPooling, predictions: NDArray[Any]) -> NDArray[np.float64]:
    views, n, labels = predictions.shape
    filled = np.zeros((views, -(-n // _BLOCK) * _BLOCK, labels))
    filled[:, :n] = np.nan_to_num(predictions)
    observed = np.zeros((filled.shape[1], views), dtype=np.bool_)
    observed[:n] = _observed(predictions)
    device = pooling.weight.device
    answers = pooling(torch.from_numpy(filled).to(device), torch.from_numpy(observed).to(device))
    return np.asarray(answers[:n].cpu().numpy())


def view_weights(pooling: LogOddsPooling, names: tuple[str, ...]) -> dict[str, float]:
    """Share of every view in the evidence for a sample that has all views."""
    everything = torch.ones(1, len(names), dtype=torch.bool, device=pooling.weight.device)
    return dict(zip(names, pooling.view_weights(everything)[0].tolist(), strict=True))


def pooling_from_state(state: State, n_views: int, n_labels: int) -> LogOddsPooling:
    """Restore a pooling from the arrays of its state_dict; ValueError if their shapes differ."""
    pooling = LogOddsPooling(n_views, n_labels)
    expected = pooling.state_dict()
    arrays = {name: state.array(name, tuple(v.shape), np.float32) for name, v in expected.items()}
    pooling.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in arrays.items()})
    return pooling


def _observed(predictions: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether a view has a prediction, (n, m)."""
    return np.ascontiguousarray(~np.isnan(predictions[:, :, 0]).T)
