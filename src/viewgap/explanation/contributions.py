"""What each view contributes to an answer: Shapley values over the views that a sample has.

Hiding a view is something that every method answers to, so no baseline values are needed: the
answer without any view is the frequency of the label in the training data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.constraints import Integer
from viewgap.constraints import check as check_value
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, remedy
from viewgap.explanation.shapley import (
    Permutations,
    all_subsets,
    interaction_values,
    shapley_values,
)
from viewgap.explanation.subsets import (
    check_model,
    label_positions,
    rows_by_pattern,
    subset_answers,
)
from viewgap.methods.base import MultiViewClassifier

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

SCALES = ("probability", "log_odds")
MOST_EXACT_VIEWS = 10
"""Samples with more views than this are explained by random permutations."""
_PROB_EPS = 1e-6  # where log-odds are asked for: they stay finite


def explain(
    model: Any,
    X: Any,
    *,
    labels: Sequence[str] | str | None = None,
    interactions: bool = False,
    scale: str = "probability",
    n_permutations: int = 128,
    random_state: int = 0,
) -> pd.DataFrame:
    """What every view of a sample contributes to the probability of every label.

    The contributions are Shapley values: the change of the answer when a view is added, averaged
    over all orders in which the views can be added. They add up to the answer for the sample
    minus the answer without any view. For a sample with k views, the model answers 2**k subsets;
    above 10 views, the orders are sampled, and the error is stated.

    Parameters
    ----------
    model : estimator
        A fitted method of viewgap. One that answers by batch (`profile="paper"` of SCSD, AIMNet
        and SIP) is refused, for its answer is not one for a sample alone.
    X : ViewSet, or what `ViewSet` takes
        The samples to explain.
    labels : str or sequence of str, optional
        Names of the labels to explain; all of them if None.
    interactions : bool, default=False
        Split contributions into what a view does alone (`with_view` is the view itself) and
        together with each other view (half of the Shapley interaction index of the two, in the
        line of either). They still add up. For samples with up to 10 views.
    scale : {"probability", "log_odds"}, default="probability"
        Contributions as differences of probabilities or of their log-odds. Probabilities within
        1e-6 of 0 and 1 are moved there for log-odds.
    n_permutations : int, default=128
        How many orders to sample for samples with more than 10 views; even.
    random_state : int, default=0
        Seed of the sampled orders. They are the same for all samples with as many views: the
        explanation of a sample does not depend on the others.

    Returns
    -------
    DataFrame
        Drawn in notebooks. A line per sample, label and view (and `with_view`): `sample`,
        `label`, `view`, `observed`, `contribution`, `standard_error` (0 where exact; not with
        interactions), `base` (probability without any view: the frequency of the label in
        training) and `probability`. A view that the sample lacks contributes 0. NaN for a label
        that was never observed in training. After a fit on a 1-D y, probabilities are of the second
        of `classes_`.

    Examples
    --------
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=90, seed=0)
    >>> model = viewgap.LateFusionRidge().fit(data.views[:80], data.labels[:80])
    >>> table = viewgap.explain(model, data.views[80:], labels=["label0"])
    >>> list(table.columns[:5])
    ['sample', 'label', 'view', 'observed', 'contribution']
    >>> of_one = table[table["sample"] == 80]
    >>> total = of_one["contribution"].sum()
    >>> bool(abs(total - (of_one["probability"] - of_one["base"]).iloc[0]) < 1e-12)
    True
    """
    asked = ExplainRequest.check(scale, interactions, n_permutations, random_state)
    fitted = check_model(model)
    positions = label_positions(fitted, labels)
    views = fitted._check_for_prediction(X)
    asked.check_views(views)
    found = contributions(fitted, views, positions, asked)
    names = [str(fitted.label_names_[position]) for position in positions]
    base = fitted.label_frequency_[positions]
    return _tidy(views, names, base, found, asked)


@dataclass(frozen=True)
class ExplainRequest:
    """What `explain` is asked for, checked."""

    scale: str
    interactions: bool
    n_permutations: int
    random_state: int

    @classmethod
    def check(
        cls, scale: str, interactions: bool, n_permutations: int, seed: int
    ) -> ExplainRequest:
        """Refuse a setting that means nothing."""
        if scale not in SCALES:
            raise SettingError(f"scale must be one of {', '.join(SCALES)}; found {scale!r}")
        check_value("random_state", Integer(0), seed)
        check_value("n_permutations", Integer(4), n_permutations)
        if n_permutations % 2:
            raise SettingError(f"n_permutations must be an even number; found {n_permutations!r}")
        return cls(scale, interactions, n_permutations, seed)

    def n_answers(self, views: ViewSet) -> NDArray[np.int64]:
        """How often the model answers for each sample, at most; (n,)."""
        n_views = views.observed.sum(axis=1)
        sampled = self.n_permutations * n_views
        exact = 2 ** np.minimum(n_views, MOST_EXACT_VIEWS)
        return np.asarray(np.where(n_views > MOST_EXACT_VIEWS, sampled, exact), dtype=np.int64)

    def check_views(self, views: ViewSet) -> None:
        """Refuse samples with too many views for what is asked."""
        n_views = views.observed.sum(axis=1)
        if self.interactions and (n_views > MOST_EXACT_VIEWS).any():
            first = int(np.argmax(n_views > MOST_EXACT_VIEWS))
            raise SettingError(
                f"{remedy('interactions', '--interactions')}: sample "
                f"{views.sample_ids[first]!r} has {n_views[first]} views; interactions are "
                f"computed for up to {MOST_EXACT_VIEWS}: leave it out, or hide views"
            )

    def on_scale(self, probabilities: Floats) -> Floats:
        """Probabilities, or their log-odds."""
        if self.scale == "probability":
            return probabilities
        bounded = np.clip(probabilities, _PROB_EPS, 1.0 - _PROB_EPS)
        return np.asarray(np.log(bounded) - np.log1p(-bounded))


@dataclass(frozen=True)
class Contributions:
    """Contributions (n, c, m), or (n, c, m, m) with interactions.

    Their standard errors are (n, c, m), the probabilities (n, c).
    """

    contribution: Floats
    standard_error: Floats
    probability: Floats


def contributions(
    model: MultiViewClassifier, views: ViewSet, labels: Sequence[int], asked: ExplainRequest
) -> Contributions:
    """The contributions to the labels at these positions, as arrays; `views` are matched."""
    n, c, m = len(views), len(labels), views.n_views
    shape = (n, c, m, m) if asked.interactions else (n, c, m)
    found = Contributions(np.zeros(shape), np.zeros((n, c, m)), np.empty((n, c)))
    every = np.arange(c)
    for pattern, rows in rows_by_pattern(views.observed, c):
        own = np.flatnonzero(pattern)
        orders = None
        if len(own) > MOST_EXACT_VIEWS:
            rng = np.random.default_rng(asked.random_state)
            orders = Permutations.draw(len(own), asked.n_permutations, rng)
        subsets = all_subsets(len(own)) if orders is None else orders.subsets
        shown = np.zeros((len(subsets), m), dtype=np.bool_)
        shown[:, own] = subsets
        answers = subset_answers(model, views[rows], shown, labels)
        found.probability[rows] = answers[:, np.argmax(subsets.sum(axis=1))]
        by_subset = np.moveaxis(asked.on_scale(answers), 1, 0)  # (s, n, c)
        if orders is not None:
            value, error = orders.values(by_subset)
            found.standard_error[np.ix_(rows, every, own)] = np.moveaxis(error, 0, -1)
            found.contribution[np.ix_(rows, every, own)] = np.moveaxis(value, 0, -1)
        elif asked.interactions:
            pairs = np.moveaxis(interaction_values(by_subset), (0, 1), (-2, -1))
            found.contribution[np.ix_(rows, every, own, own)] = pairs
        else:
            value = shapley_values(by_subset)
            found.contribution[np.ix_(rows, every, own)] = np.moveaxis(value, 0, -1)
    never = np.isnan(found.probability)
    found.contribution[never] = np.nan  # of views that a sample lacks, too
    return found


def _tidy(
    views: ViewSet, names: Sequence[str], base: Floats, found: Contributions, asked: ExplainRequest
) -> pd.DataFrame:
    from viewgap.explanation.table import Explanation

    interactions = asked.interactions
    n, c, m = len(views), len(names), views.n_views
    per_entry = m * m if interactions else m
    view_names = np.array(views.names, dtype=object)
    columns: dict[str, Any] = {
        "sample": _repeat_ids(views, c * per_entry),
        "label": np.tile(np.repeat(np.array(names, dtype=object), per_entry), n),
        "view": np.tile(np.repeat(view_names, m if interactions else 1), n * c),
    }
    observed = np.repeat(views.observed, m if interactions else 1, axis=1)
    if interactions:
        columns["with_view"] = np.tile(view_names, n * c * m)
    columns["observed"] = np.repeat(observed, c, axis=0).reshape(-1)
    columns["contribution"] = found.contribution.reshape(-1)
    if not interactions:
        columns["standard_error"] = found.standard_error.reshape(-1)
    columns["base"] = np.tile(np.repeat(base, per_entry), n)
    columns["probability"] = np.repeat(found.probability.reshape(-1), per_entry)
    return Explanation.of(columns, asked.scale)


def _repeat_ids(views: ViewSet, times: int) -> NDArray[Any]:
    """The ids, each several times; a tuple (of a MultiIndex) stays one value."""
    return np.repeat(views.sample_ids, times)


def answers_by_pattern(
    model: Any, X: Any, *, labels: Sequence[str] | str | None = None
) -> pd.DataFrame:
    """The probability of every label when only some of the views of a sample are shown.

    Parameters
    ----------
    model : estimator
        A fitted method of viewgap, as in `explain`.
    X : ViewSet, or what `ViewSet` takes
        Samples with up to 10 views each.
    labels : str or sequence of str, optional
        Names of the labels; all of them if None.

    Returns
    -------
    DataFrame
        A line per sample, label and subset of the views that the sample has: `sample`, `label`,
        `views` (a tuple of names; empty for the label frequency), `n_views` and `probability`.

    Examples
    --------
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=90, seed=0)
    >>> model = viewgap.LateFusionRidge().fit(data.views[:80], data.labels[:80])
    >>> table = answers_by_pattern(model, data.views[[80]], labels="label0")
    >>> table["views"].tolist()[:4]
    [(), ('view0',), ('view1',), ('view0', 'view1')]
    """
    import pandas as pd

    fitted = check_model(model)
    positions = label_positions(fitted, labels)
    views = fitted._check_for_prediction(X)
    n_views = views.observed.sum(axis=1)
    if (n_views > MOST_EXACT_VIEWS).any():
        first = int(np.argmax(n_views > MOST_EXACT_VIEWS))
        raise SettingError(
            f"sample {views.sample_ids[first]!r} has {n_views[first]} views, and "
            f"{2 ** int(n_views[first]):,} subsets of them; answers are given for samples with up "
            f"to {MOST_EXACT_VIEWS} views: hide some with ViewSet.with_observed"
        )
    names = [str(fitted.label_names_[position]) for position in positions]
    parts: list[pd.DataFrame | None] = [None] * len(views)
    for pattern, rows in rows_by_pattern(views.observed, len(positions)):
        own = np.flatnonzero(pattern)
        shown = np.zeros((2 ** len(own), views.n_views), dtype=np.bool_)
        shown[:, own] = all_subsets(len(own))
        answers = subset_answers(fitted, views[rows], shown, positions)
        for row, values in zip(rows, answers, strict=True):
            parts[row] = _pattern_lines(views, int(row), names, shown, values)
    return pd.concat(parts, ignore_index=True)


def _pattern_lines(
    views: ViewSet, row: int, names: Sequence[str], shown: NDArray[np.bool_], values: Floats
) -> pd.DataFrame:
    import pandas as pd

    s, c = values.shape
    subsets = np.empty(s, dtype=object)
    subsets[:] = [tuple(np.array(views.names)[flags].tolist()) for flags in shown]
    return pd.DataFrame(
        {
            "sample": _repeat_ids(views[[row]], s * c),
            "label": np.repeat(np.array(names, dtype=object), s),
            "views": np.tile(subsets, c),
            "n_views": np.tile(shown.sum(axis=1), c),
            "probability": values.T.reshape(-1),
        }
    )
