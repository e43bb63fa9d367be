"""The ensemble: SCSD, trees and ridge regression, cross-fitted and stacked."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import viewgap.methods as methods
from viewgap.constraints import AnyOf, Constraint, Doc, Flag, Integer, OrNone, Real
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.ensemble.leaderboard import Entry, entries_from_metadata, score_with_spread, to_frame
from viewgap.ensemble.members import (
    Member,
    OutOfTime,
    estimated_seconds,
    fit_member,
    make_member,
    share,
)
from viewgap.ensemble.stacking import Stacking
from viewgap.errors import RunError, SettingError, parameter
from viewgap.methods._random_state import seed_words
from viewgap.methods.base import MultiViewClassifier, Validation
from viewgap.metrics import expected_f1_thresholds
from viewgap.parameters import Seed
from viewgap.state import State
from viewgap.training.runtime import DEVICE, choose_runtime

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

# In the order in which they are fitted: what is fast first, the network with the time that is left.
DEFAULT: dict[str, dict[str, Any]] = {
    "extra_trees": {},
    "late_fusion_ridge": {"features": "auto"},
    "gradient_boosting": {},
    "scsd": {},
}
_ALWAYS = "scsd"
_MOST_SECONDS = 600.0  # by estimate; a member that takes longer has to be asked for by name
_MOST_MEMBERS = 100
_SMALLEST_SHARE = 0.02  # of the weights; a member with less costs more than it brings
_OWN = "ensemble"


class _Methods(Constraint):
    """Names of methods, or names with their parameters."""

    @property
    def text(self) -> str:
        return "a list of names of methods, or a mapping of names to parameters"

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str) or not isinstance(value, Sequence | Mapping):
            return False
        names = list(value)
        sized = 0 < len(names) <= _MOST_MEMBERS and all(isinstance(name, str) for name in names)
        plain = not isinstance(value, Mapping) or all(
            isinstance(own, Mapping) for own in value.values()
        )
        return sized and plain


class Ensemble(MultiViewClassifier):
    r"""Several methods, cross-fitted and stacked; the default of `viewgap fit`.

    By default extremely randomised trees, gradient boosting, ridge regression and SCSD. Every
    member predicts every training sample by a copy that was not fitted on it; from these
    probabilities :math:`p_{kj}` of member k comes one weight per member and one shift per label,

    .. math:: \mathrm{logit}\, p_j = b_j + \sum_k w_k\, \mathrm{logit}\, p_{kj},

    drawn towards the plain mean of the members; labels that were not observed are left out.
    `leaderboard_` shows what each member brings.

    Without `time_budget`, a member that would take more than ten minutes by its size is left out
    (SCSD never is); `methods` names members that are fitted however long they take.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(60, 6)), "b": np.ones((60, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.Ensemble(["extra_trees", "late_fusion_ridge"], random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (60, 2)
    >>> sorted(model.leaderboard_["method"])
    ['ensemble', 'extra_trees', 'late_fusion_ridge']
    """

    summary: ClassVar[str] = "SCSD, trees and ridge regression, cross-fitted and stacked"
    reference: ClassVar[str] = "Wolpert, Stacked generalization, Neural Networks 5(2), 1992"

    methods: Annotated[
        Sequence[str] | Mapping[str, Mapping[str, Any]] | None,
        OrNone(_Methods()),
        Doc(
            "Names of the members (see `viewgap methods`), or a mapping of names to parameters; "
            "None: extra_trees, late_fusion_ridge, gradient_boosting and scsd."
        ),
    ]
    time_budget: Annotated[
        float | None,
        OrNone(Real(0, None, closed="neither")),
        Doc(
            "Seconds that a fit may take. Members that do not fit into it are left out, and a "
            "network is trained as long as there is time: the result then depends on the machine."
        ),
    ]
    device: Annotated[str, DEVICE, Doc("Where networks are trained, see SCSD.")]
    verbose: Annotated[bool | int, AnyOf(Flag(), Integer(0)), Doc("Whether to show progress.")]

    leaderboard_: Annotated[
        Any,
        Doc(
            "DataFrame of the members and the ensemble: average precision of the training samples, "
            "out of fold, its standard deviation over five parts of them, share of the weights, "
            "seconds (not kept in a model file), and why a member was left out."
        ),
    ]
    members_: Annotated[dict[str, MultiViewClassifier], Doc("The fitted members by name.")]
    weights_: Annotated[dict[str, float], Doc("Weight of the log-odds of every member.")]
    view_weights_: Annotated[
        dict[str, float],
        Doc("Share of every view, averaged over the members that weight views."),
    ]
    out_of_fold_proba_: Annotated[
        NDArray[np.float64],
        Doc(
            "Stacked out-of-fold probabilities of the training samples, (n_samples_fit_, "
            "n_labels). Not kept in a model file."
        ),
    ]

    _keep_all_members = False  # benchmarks measure those without weight too

    def __init__(
        self,
        methods: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None,
        time_budget: float | None = None,
        random_state: Seed = None,
        device: str = "auto",
        views: Mapping[str, Any] | None = None,
        nan: str = "mean",
        on_empty: str = "error",
        verbose: bool | int = False,
    ) -> None:
        self._store_parameters(locals())

    # ------------------------------------------------------------------ fitting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, params in self._wanted().items():
            if name == _OWN:
                raise SettingError(f"{parameter('methods')}: an ensemble cannot be its own member")
            try:
                make_member(name, params, 0, {})._check_parameters()
            except TypeError as error:
                raise SettingError(f"{parameter('methods')}: {name}: {error}") from error

    def _check_machine(self) -> None:
        choose_runtime(self.device)

    def _wanted(self) -> dict[str, Mapping[str, Any]]:
        if self.methods is None:
            return dict(DEFAULT)
        if isinstance(self.methods, Mapping):
            return dict(self.methods)
        return {name: DEFAULT.get(name, {}) for name in self.methods}

    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        self._check_machine()
        start = time.monotonic()
        wanted = self._wanted()
        seeds = seed_words(self.random_state, len(wanted))
        entries = {name: Entry(name) for name in wanted}
        members: list[Member] = []
        for (name, params), seed in zip(wanted.items(), seeds, strict=True):
            model = make_member(name, params, int(seed), {"device": self.device})
            left = self._time_left(start, len(wanted) - len(members))
            entries[name].note = self._reason_to_leave_out(name, model, views, labels, left)
            if entries[name].note:
                continue
            self._say(f"fitting {name}")
            try:
                deadline = None if left is None else time.monotonic() + left
                members.append(fit_member(name, model, self, views, labels, validation, deadline))
            except OutOfTime:
                entries[name].note = "left out: not enough time"
        if not members:
            raise RunError(
                f"no member could be fitted within {parameter('time_budget')} = "
                f"{self.time_budget:g} s; give more time, or fewer samples, columns or labels"
            )
        self._stack(members, labels, validation, entries)

    def _time_left(self, start: float, members_to_come: int) -> float | None:
        """Seconds that the next member may take: all that are left, less a reserve."""
        if self.time_budget is None:
            return None
        return 0.95 * self.time_budget - (time.monotonic() - start)

    def _reason_to_leave_out(
        self,
        name: str,
        model: MultiViewClassifier,
        views: ViewSet,
        labels: Labels,
        left: float | None,
    ) -> str:
        """Why a member is not even begun, or nothing."""
        if left is None:
            if self.methods is not None or name == _ALWAYS:
                return ""
            expected = estimated_seconds(model, views, labels)
            return f"left out: about {expected:,.0f} s" if expected > _MOST_SECONDS else ""
        expected = estimated_seconds(model, views, labels)
        return (
            f"left out: about {expected:,.0f} s, {left:,.0f} s are left" if expected > left else ""
        )

    def _say(self, text: str) -> None:
        if self.verbose:
            print(text, file=sys.stderr, flush=True)

    def _stack(
        self,
        members: list[Member],
        labels: Labels,
        validation: Validation | None,
        entries: dict[str, Entry],
    ) -> None:
        """Learn the weights of the members, and leave those out that have next to none."""
        n = self.n_samples_fit_
        known, truth = _with_validation(members, labels[:n], validation)
        stacking = Stacking.fit(known, truth)
        kept = np.flatnonzero(stacking.shares >= _SMALLEST_SHARE)
        if len(kept) < len(members):
            stacking = Stacking.fit(known[kept], truth)
        self.members_ = {members[k].name: members[k].model for k in kept}
        if self._keep_all_members:
            self._all_members = {member.name: member.model for member in members}
        self._stacking = stacking
        self.weights_ = dict(zip(self.members_, stacking.weights.tolist(), strict=True))
        out_of_fold = np.stack([member.out_of_fold for member in members])
        self.out_of_fold_proba_ = stacking(out_of_fold[kept])
        self.thresholds_ = expected_f1_thresholds(np.nan_to_num(stacking(known[kept]), nan=0.5))
        shares = dict(zip(self.members_, stacking.shares.tolist(), strict=True))
        for member in members:
            entry = entries[member.name]
            entry.seconds, entry.weight = member.seconds, shares.get(member.name, 0.0)
            entry.score, entry.spread = score_with_spread(labels[:n], member.out_of_fold)
        total = Entry(_OWN, weight=1.0, seconds=sum(m.seconds for m in members))
        total.score, total.spread = score_with_spread(labels[:n], self.out_of_fold_proba_)
        self._entries = [total, *entries.values()]
        self._summarise()

    def _summarise(self) -> None:
        self.leaderboard_: pd.DataFrame = to_frame(self._entries)
        self.view_weights_ = self._mean_view_weights()

    def _mean_view_weights(self) -> dict[str, float]:
        total = np.zeros(len(self.view_names_))
        for name, model in self.members_.items():
            own = getattr(model, "view_weights_", None)
            if own is not None:
                total += self.weights_[name] * np.array([own[view] for view in self.view_names_])
        shares = total / total.sum() if total.sum() > 0 else np.full(len(total), 1 / len(total))
        return dict(zip(self.view_names_, shares.tolist(), strict=True))

    # ------------------------------------------------------------------ prediction

    def _predict_proba(self, views: ViewSet) -> Floats:
        return self._stacking(self._predict_members(views))

    def _predict_members(self, views: ViewSet) -> Floats:
        """Probabilities of every member, (K, n, c)."""
        answers = [model._predict_proba(views) for model in self.members_.values()]
        return np.stack(answers).astype(np.float64)

    def predict_views(self, X: Any) -> dict[str, Any]:
        """Predict the labels from every view alone, as if the others were missing.

        Parameters
        ----------
        X : ViewSet, dict, list, DataFrame or array
            The views, as in `fit`.

        Returns
        -------
        dict of str to array or DataFrame of shape (n, c)
            Probabilities for every view by its name; NaN where the view is missing. DataFrames if
            X came as DataFrames.
        """
        views = self._check_for_prediction(X)
        answers = {}
        for j, name in enumerate(views.names):
            rows = np.flatnonzero(views.observed[:, j])
            alone = np.zeros((len(rows), views.n_views), dtype=np.bool_)
            alone[:, j] = True
            values = np.full((len(views), len(self.label_names_)), np.nan)
            if len(rows):
                values[rows] = self._checked_probabilities(views[rows].with_observed(alone))
            answers[name] = self._with_ids(views, values)
        return answers

    # ------------------------------------------------------------------ saving and loading

    def _get_state(self) -> State:
        arrays: dict[str, NDArray[Any]] = {
            "stacking.weights": self._stacking.weights,
            "stacking.shift": self._stacking.shift,
            "thresholds": np.asarray(self.thresholds_, dtype=np.float64),
        }
        members = []
        for number, (name, model) in enumerate(self.members_.items()):
            state = model._get_state()
            arrays |= {f"{number}/{key}": array for key, array in state.arrays.items()}
            params = {k: v for k, v in model.get_params(deep=False).items() if k != "callbacks"}
            params["random_state"] = None  # only a fit needs it
            members.append({"method": name, "params": params, "metadata": state.metadata})
        entries = [entry.to_metadata() for entry in self._entries]
        return State(arrays, {"members": members, "leaderboard": entries})

    def _set_state(self, state: State) -> None:
        stored = state.metadata["members"]
        if not isinstance(stored, list) or not 0 < len(stored) <= _MOST_MEMBERS:
            raise ValueError("members must be a list of methods")
        self._stacking = _stored_stacking(state, len(stored), len(self.label_names_))
        self.members_ = {}
        for number, own in enumerate(stored):
            model = self._stored_member(own)
            model._set_state(State(state.part(f"{number}/"), own["metadata"]))
            model.is_fitted_ = True
            self.members_[own["method"]] = model
        if len(self.members_) != len(stored):
            raise ValueError("a member occurs twice")
        self.weights_ = dict(zip(self.members_, self._stacking.weights.tolist(), strict=True))
        self.thresholds_ = _finite(state, "thresholds", len(self.label_names_))
        self._entries = entries_from_metadata(state.metadata["leaderboard"])
        self._summarise()

    def _stored_member(self, stored: Any) -> MultiViewClassifier:
        """An unfitted member as a model file describes it."""
        name = stored["method"]
        if name == _OWN or name not in methods.names():
            raise ValueError(f"there is no member {str(name)[:60]!r} in this viewgap")
        params = dict(stored["params"])
        if "device" in params:
            params["device"] = self.device
        model = methods.get(name)(**params)
        model._check_parameters()
        share(self, model, fitted=False)
        return model


def _with_validation(
    members: Sequence[Member], labels: Labels, validation: Validation | None
) -> tuple[Floats, Labels]:
    """Probabilities (K, n, c) of rows that members were not fitted on, and their labels."""
    known = np.stack([member.out_of_fold for member in members])
    if validation is None or not len(validation[0]):
        return known, labels
    views, more = validation
    answers = np.stack([member.model._predict_proba(views) for member in members])
    joined = Labels(
        np.vstack([labels.values, more.values]),
        np.vstack([labels.observed, more.observed]),
        labels.names,
    )
    return np.concatenate([known, answers.astype(np.float64)], axis=1), joined


def _stored_stacking(state: State, n_members: int, n_labels: int) -> Stacking:
    weights = _finite(state, "stacking.weights", n_members)
    if not (weights > 0).all():
        raise ValueError("the weights of the members must be positive")
    return Stacking(weights, _finite(state, "stacking.shift", n_labels))


def _finite(state: State, name: str, length: int) -> Floats:
    from viewgap.methods._blocks import checked_array

    array = checked_array(state, name, (length,), np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return array
