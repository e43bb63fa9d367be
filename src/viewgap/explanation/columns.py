"""Which columns of a view the score depends on: permutation importance of columns and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, SettingError, first_few, remedy
from viewgap.explanation.subsets import SeparateViews, check_model
from viewgap.methods.base import MultiViewClassifier
from viewgap.metrics import get_metric, registered_metrics
from viewgap.metrics.prediction import Prediction

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Groups = Mapping[str, Sequence[Any]] | str | None
_REST = 2**31  # seeds of the shuffles are below it, as in scikit-learn


def column_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    view: str,
    groups: Groups = None,
    metric: str = "AP",
    n_repeats: int = 5,
    random_state: int = 0,
) -> pd.DataFrame:
    """What the score loses when columns of one view are shuffled among the samples that have it.

    Columns that say the same stand in for each other, and each of them then looks unimportant:
    shuffle them together, as a group. Of methods that look at every view by itself (late-fusion
    ridge, the tree methods), only this view is computed again.

    Parameters
    ----------
    model : estimator
        A fitted method of viewgap, as in `explain`.
    X : ViewSet, or what `ViewSet` takes
        Samples that the model was not fitted on.
    y : array or DataFrame
        Their labels; NaN where one was not observed. Such entries do not count.
    view : str
        Name of the view.
    groups : dict or str, optional
        Columns that are shuffled together, by the name of their group: names of columns, or
        positions in a view without names. Columns in no group are left alone. A text is a
        separator: columns whose names agree up to its first occurrence are a group. Without it,
        every column by itself.
    metric : str, default="AP"
        A metric by its name, `clean` variant, see `evaluate`.
    n_repeats : int, default=5
        How often each group is shuffled; at least 2.
    random_state : int, default=0
        Seed. All groups are shuffled in the same orders, as in scikit-learn's
        `permutation_importance`.

    Returns
    -------
    DataFrame
        A line per group, the most important first: `view`, `group`, `n_columns`, `importance`
        (score less the mean score after shuffling; of a metric of which lower values are better,
        the other way round), `standard_error` of that mean over the shuffles (it says nothing
        about other samples), `score` (of the values as they are).

    Examples
    --------
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=90, seed=0)
    >>> model = viewgap.LateFusionRidge().fit(data.views[:60], data.labels[:60])
    >>> halves = {"first": range(10), "second": range(10, 20)}
    >>> found = viewgap.column_importance(
    ...     model, data.views[60:], data.labels[60:], view="view0", groups=halves
    ... )
    >>> sorted(found["group"]), found["n_columns"].tolist()
    (['first', 'second'], [10, 10])
    """
    import pandas as pd

    fitted = check_model(model)
    _check_request(fitted, view, metric, n_repeats)
    try:
        seed = check_random_state(random_state).randint(_REST)
    except ValueError as error:
        raise SettingError(f"random_state: {error}") from error
    views = fitted._check_for_prediction(X)
    own = view_groups(fitted, view, groups)
    score = _Score.of(fitted, views, y, metric)
    answer = _Shuffled.of(fitted, views, fitted.view_names_.index(view))
    whole = score(answer.unchanged)
    losses = np.array(
        [
            [whole - score(answer(columns, order)) for order in _orders(answer, seed, n_repeats)]
            for columns in own.values()
        ]
    )
    found = pd.DataFrame(
        {
            "view": view,
            "group": list(own),
            "n_columns": [len(columns) for columns in own.values()],
            "importance": losses.mean(axis=1),
            "standard_error": losses.std(axis=1, ddof=1) / np.sqrt(n_repeats),
            "score": score.sign * whole,
        }
    )
    order = np.argsort(-found["importance"].to_numpy(), kind="stable")
    return found.iloc[order].reset_index(drop=True)


def _check_request(model: MultiViewClassifier, view: str, metric: str, n_repeats: int) -> None:
    if view not in model.view_names_:
        raise SettingError(
            f"{remedy('view', '--columns')} must name a view of the model: "
            f"{first_few(model.view_names_)}; found {view!r}"
        )
    names = [known.name for known in registered_metrics()]
    if metric not in names:
        raise SettingError(f"unknown metric {metric!r}; available: {', '.join(names)}")
    if isinstance(n_repeats, bool) or not isinstance(n_repeats, int) or n_repeats < 2:
        raise SettingError(
            f"{remedy('n_repeats', '--repeats')} must be a whole number of at least 2, without "
            f"which there is no standard error; found {n_repeats!r}"
        )


# ---------------------------------------------------------------------- groups


def view_groups(model: MultiViewClassifier, view: str, groups: Groups) -> dict[str, list[int]]:
    """Positions of the columns of every group, in the order of the groups."""
    names = model.feature_names_in_.get(view, ())
    width = model.view_dims_[model.view_names_.index(view)]
    if groups is None:
        return {str(names[i] if names else i): [i] for i in range(width)}
    if isinstance(groups, str):
        return _by_prefix(view, names, groups)
    place: dict[Any, int] = {name: i for i, name in enumerate(names or range(width))}
    found: dict[str, list[int]] = {}
    for group, columns in groups.items():
        if isinstance(columns, str):
            raise SettingError(f"groups: {group!r} must hold a list of columns; found {columns!r}")
        unknown = [column for column in columns if column not in place]
        if unknown or not len(columns):
            kind = "names of its columns" if names else f"positions 0 to {width - 1}"
            told = f"unknown: {first_few(map(str, unknown))}" if unknown else "found none"
            raise SettingError(f"groups: {group!r} of view {view!r} must hold {kind}; {told}")
        found[str(group)] = sorted({place[column] for column in columns})
    if not found:
        raise SettingError("groups must hold at least one group of columns; found none")
    return found


def _by_prefix(view: str, names: Sequence[str], separator: str) -> dict[str, list[int]]:
    option = remedy("groups", "--group-by")
    if not names:
        raise SettingError(
            f"{option}: the columns of view {view!r} have no names; give their positions"
        )
    if not separator:
        raise SettingError(f"{option} must be a separator of at least one character")
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(name.partition(separator)[0], []).append(place)
    if len(found) == len(names):
        raise SettingError(
            f"{option}: no two columns of view {view!r} agree up to {separator!r}: "
            f"{first_few(names)}; leave it out, or give another separator"
        )
    return found


# ---------------------------------------------------------------------- answers and scores


@dataclass(frozen=True, eq=False)
class _Score:
    """The score of probabilities (n, c), higher is better."""

    truth: Floats
    limits: Any
    metric: str

    @classmethod
    def of(cls, model: MultiViewClassifier, views: ViewSet, y: Any, metric: str) -> _Score:
        truth = model._match_labels(y, views).as_float()
        truth[:, np.isnan(model.label_frequency_)] = np.nan
        if np.isnan(truth).all():
            raise LabelError("no sample has an observed label, so that nothing can be scored")
        return cls(truth, 0.5 if model.one_label_ else model.thresholds_, metric)

    @property
    def sign(self) -> float:
        return 1.0 if get_metric(self.metric).greater_is_better else -1.0

    def __call__(self, probabilities: Floats) -> float:
        decisions = probabilities > self.limits
        prediction = Prediction.of(self.truth, probabilities, "clean", decisions=decisions)
        function = get_metric(self.metric).function
        assert function is not None  # noqa: S101 (registered ones have it)
        return self.sign * float(function(prediction))


@dataclass(frozen=True, eq=False)
class _Shuffled:
    """Probabilities of all samples when some columns of a view come from other samples.

    Samples that lack the view keep their answers.
    """

    model: MultiViewClassifier
    views: ViewSet  # those that have the view
    view: str
    values: NDArray[Any]
    rows: NDArray[np.intp]
    unchanged: Floats
    answer: Callable[[ViewSet], Floats]

    @classmethod
    def of(cls, model: MultiViewClassifier, views: ViewSet, index: int) -> _Shuffled:
        name, rows = views.names[index], np.flatnonzero(views.observed[:, index])
        if len(rows) < 2:
            raise SettingError(
                f"view {name!r}: {len(rows)} of the samples have it; at least 2 are needed to "
                "shuffle it among them"
            )
        some = views[rows]
        dtype = np.result_type(some.stored(name).dtype, np.float32)
        values = some.rows(name, dtype=dtype)
        some = some.with_view_values(name, values)
        answer = _answer_of_view(model, some, index)
        unchanged = model._checked_probabilities(views)
        unchanged[rows] = answer(some)
        return cls(model, some, name, values, rows, unchanged, answer)

    def __call__(self, columns: list[int], order: NDArray[np.intp]) -> Floats:
        changed = self.values.copy()
        changed[:, columns] = self.values[order][:, columns]
        result = self.unchanged.copy()
        result[self.rows] = self.answer(self.views.with_view_values(self.view, changed))
        return result


def _orders(shuffled: _Shuffled, seed: int, n_repeats: int) -> Iterator[NDArray[np.intp]]:
    """Random orders of the samples with the view: those of scikit-learn for the same seed."""
    rng = check_random_state(seed)
    step = np.arange(len(shuffled.rows))
    order = step.copy()
    for _ in range(n_repeats):
        rng.shuffle(step)
        order = order[step]
        yield order


def _answer_of_view(
    model: MultiViewClassifier, views: ViewSet, index: int
) -> Callable[[ViewSet], Floats]:
    """Probabilities of the same samples with other values of one view."""
    if not isinstance(model, SeparateViews):
        return model._checked_probabilities
    others = [model._view_scores(views, j) if j != index else None for j in range(views.n_views)]
    never = np.isnan(model.label_frequency_)

    def answer(changed: ViewSet) -> Floats:
        if not changed.observed[:, index].all():  # a row of gaps only: the view is missing there
            return model._checked_probabilities(changed)
        new = model._view_scores(changed, index)
        scores = (new if own is None else own for own in others)
        probabilities = model._from_view_scores(scores, changed.observed)
        return np.where(never, np.nan, probabilities)

    return answer
