"""What scikit-learn's model selection needs for data with gaps: folds, scorers, parts of pipelines.

`BalancedKFold` is a splitter, `scorer` and `scorers` make scorers, `cross_val_predict` takes labels
that were not observed, `PerView` puts a transformer of scikit-learn before any method, and
`view_importance` says what a fitted model loses without each of its views.
"""

from __future__ import annotations

from viewgap.model_selection.importance import view_importance
from viewgap.model_selection.out_of_fold import cross_val_predict
from viewgap.model_selection.per_view import PerView
from viewgap.model_selection.scorers import Scorer, scorer, scorers
from viewgap.model_selection.splitters import BalancedKFold

__all__ = [
    "BalancedKFold",
    "PerView",
    "Scorer",
    "cross_val_predict",
    "scorer",
    "scorers",
    "view_importance",
]
