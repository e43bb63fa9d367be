"""`complete_labels`: out-of-fold probabilities for every label entry, and what looks wrong."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from viewgap.completion.answers import Folds, counts_in_training, out_of_fold
from viewgap.completion.result import LabelCompletion
from viewgap.completion.suspicion import judged_labels, suspicion
from viewgap.data.labels import Labels
from viewgap.data.splits import matched_groups
from viewgap.data.validation import as_labels, as_viewset
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, SettingError, ViewgapWarning, first_few
from viewgap.inspection.columns import read_columns
from viewgap.inspection.samples import duplicate_groups
from viewgap.methods import registry
from viewgap.model_selection import BalancedKFold

DEFAULT = "extra_trees"


def complete_labels(
    X: Any,
    Y: Any,
    method: Any = DEFAULT,
    *,
    cv: Any = 5,
    n_repeats: int = 1,
    groups: Any = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    nan: str = "mean",
    views: Mapping[str, Any] | None = None,
) -> LabelCompletion:
    """Say how probable every label is where nobody looked, and which observed labels look wrong.

    Every sample is answered by a model that was fitted without it. The observed entries that the
    answers contradict are ranked; the first of them are flagged, each with what speaks against it.

    Parameters
    ----------
    X : ViewSet, or what `ViewSet` takes
        The samples. Those without any view are answered with the label frequencies.
    Y : array or DataFrame of shape (n_samples, n_labels)
        0, 1, and NaN where a label was not observed.
    method : str, estimator, or a list of these, default="extra_trees"
        Which method answers. The log-odds of several are averaged.
    cv : int or splitter, default=5
        An int is the number of folds of `BalancedKFold`, which are alike in labels and missing
        views. A splitter must have every row in one test part.
    n_repeats : int, default=1
        How often the samples are dealt to folds anew, for an int `cv`; the log-odds are averaged.
    groups : array of shape (n_samples,), or Series, optional
        Samples of one group (a patient, say) are never on both sides of a fold. Without it, and
        with an int `cv`, samples with the same values in the same views are a group.
    n_jobs : int, optional
        Processes of joblib.
    random_state : int, default=0
        Seed of the folds, and of methods that are given by name.
    nan : {"mean", "error", "missing_view"}, default="mean"
        What a NaN in an observed row means.
    views : mapping, optional
        `{name: columns}` where X is one table.

    Returns
    -------
    LabelCompletion
        `completed` (samples x labels), `probabilities`, `suspicious` (a line per flagged entry)
        and `entries` (a line per entry).

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=120, seed=0)
    >>> Y = np.array(data.labels[:, :4], dtype=float)
    >>> Y[3, 0] = np.nan
    >>> found = viewgap.complete_labels(data.views, Y, method="late_fusion_ridge")
    >>> bool(0 < found.completed.iloc[3, 0] < 1)
    True
    """
    given = as_viewset(X, views=views, nan=nan)
    labels = as_labels(Y, given)
    _check_observed(labels)
    group = matched_groups(groups, given)
    fixed, truth = given.with_fixed_row_order(), labels.as_float()
    same = duplicates(fixed)
    if isinstance(cv, int | np.integer) and group is None:
        group = same
    folds = _folds(fixed, truth, cv, n_repeats, group, random_state)
    estimators = [_estimator(own, random_state, nan) for own in _as_list(method)]
    with warnings.catch_warnings():
        # Every fold would say the same: labels without evidence, samples without views.
        warnings.simplefilter("ignore", ViewgapWarning)
        whole, alone = out_of_fold(estimators, fixed, truth, folds, n_jobs)
    alike, unlike = (counts_in_training(truth == value, folds) for value in (1.0, 0.0))
    # A model that saw no positive, or no negative sample of a label has nothing to say about it.
    told = (np.minimum(alike, unlike) > 0) & fixed.has_view[:, None]
    scores = np.where(told, suspicion(whole, truth), np.nan)
    judged = judged_labels(np.where(told, whole, np.nan), truth)
    _warn_of_labels(labels, judged)
    return LabelCompletion(fixed, labels, whole, alone, scores, judged, same)


def _check_observed(labels: Labels) -> None:
    if not labels.observed.any():
        raise LabelError(
            f"none of the {labels.n_labels:,} labels was observed for any of {len(labels):,} "
            "samples, so nothing can be learned from them; give labels of some samples"
        )


def _warn_of_labels(labels: Labels, judged: Any) -> None:
    seen = labels.observed.any(axis=0) & ~judged
    left = [name for name, own in zip(labels.names, seen, strict=True) if own]
    if left:
        warnings.warn(
            f"{len(left):,} of {labels.n_labels:,} labels are not judged: their out-of-fold "
            "probabilities do not tell positives from negatives, or one of the two is hardly "
            f"there: {first_few(left)}; none of their entries is flagged",
            ViewgapWarning,
            stacklevel=3,
        )


def _as_list(method: Any) -> list[Any]:
    found = list(method) if isinstance(method, list | tuple) else [method]
    if not found:
        raise SettingError("method names no method; give a name, an estimator or a list of these")
    return found


def _estimator(method: Any, random_state: int, nan: str) -> Any:
    if not isinstance(method, str):
        if not hasattr(method, "get_params"):
            raise SettingError(f"method must be a name, an estimator or a list; found {method!r}")
        own = clone(method)
    else:
        kind = registry.get(method)
        known = kind._get_param_names()
        own = kind(**{"random_state": random_state} if "random_state" in known else {})
    wanted = {"on_empty": "prior", "nan": nan}
    return own.set_params(**{key: wanted[key] for key in wanted if key in own.get_params()})


def _folds(
    views: ViewSet, truth: Any, cv: Any, n_repeats: int, groups: Any, random_state: int
) -> list[Folds]:
    if not isinstance(n_repeats, int | np.integer) or n_repeats < 1:
        raise SettingError(f"n_repeats must be 1 or more, found {n_repeats!r}")
    if not isinstance(cv, int | np.integer):
        if not hasattr(cv, "split") or isinstance(cv, str):
            raise SettingError(f"cv must be a number of folds or a splitter, found {cv!r}")
        if n_repeats > 1:
            raise SettingError(
                "n_repeats is for a number of folds (cv=5); leave it out beside a splitter"
            )
        return [list(cv.split(views, truth, groups))]
    repeats: Sequence[int] = range(int(n_repeats))
    seeds = [random_state + 1_000 * repeat for repeat in repeats]
    return [
        list(BalancedKFold(int(cv), random_state=seed).split(views, truth, groups))
        for seed in seeds
    ]


def duplicates(views: ViewSet) -> NDArray[np.intp]:
    """(n,) a number per sample; samples with the same values in the same views share theirs.

    They stay on one side of a fold, and testify to each other.

    Samples that have nothing but views of a few whole numbers, which agree by chance, are taken to
    differ.
    """
    numbers = np.arange(len(views))
    for rows in duplicate_groups(views, [read_columns(views, name) for name in views.names]):
        numbers[rows] = rows[0]
    return numbers
