"""The ensemble: SCSD, trees and ridge regression, cross-fitted and stacked."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viewgap.constraints import AnyOf, Constraint, Doc, Flag, Integer, OrNone, Real
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.ensemble.dealing import Costs, Models, Results, fit_dealt_out
from viewgap.ensemble.kept_members import KeptMembers
from viewgap.ensemble.leaderboard import Entry, entries_from_metadata, score_with_spread, to_frame
from viewgap.ensemble.members import Member, fit_member, make_member, raise_if_any_requested, share
from viewgap.ensemble.schedule import Schedule
from viewgap.ensemble.stacking import Stacking
from viewgap.errors import RunError, SettingError, parameter
from viewgap.interruption import Interrupted, OutOfTimeError, deferred, raise_if_requested
from viewgap.methods.base import MultiViewClassifier, PredictsViews, Validation
from viewgap.methods.fitting.held_out import join_labels
from viewgap.methods.fitting.processes import several_processes
from viewgap.methods.fitting.random_state import seed_words
from viewgap.methods.registry import restore_method
from viewgap.metrics import expected_f1_thresholds
from viewgap.parameters import Seed
from viewgap.state import State
from viewgap.training.processes import agreed, any_process, is_main_process
from viewgap.training.runtime import DEVICE, choose_runtime

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

DEFAULT: dict[str, dict[str, Any]] = {
    "extra_trees": {},
    "late_fusion_ridge": {"features": "auto"},
    "gradient_boosting": {},
    "scsd": {},
    "joint_boosting": {},  # the last: the others keep the seeds that they had without it
}
_ALWAYS = "scsd"  # however long it takes, where there is no time budget
_OF_SEVERAL_VIEWS = "joint_boosting"  # of a single view it is gradient_boosting once more
_MOST_MEMBERS = 100
_SMALLEST_SHARE = 0.02  # of the weights; a member with less costs more than it brings
_OWN = "ensemble"
# Parameters that members take from the ensemble; a model file keeps them once.
_COMMON = ("device", "views", "nan", "on_empty", "verbose")


class _Methods(Constraint):
    """Names of methods, or names with their parameters."""

    @property
    def text(self) -> str:
        """See `Constraint`."""
        return "a list of different names of methods, or a mapping of names to parameters"

    def accepts(self, value: Any) -> bool:
        """See `Constraint`."""
        if isinstance(value, str) or not isinstance(value, Sequence | Mapping):
            return False
        names = list(value)
        if not 0 < len(names) <= _MOST_MEMBERS or not all(isinstance(name, str) for name in names):
            return False
        params = value.values() if isinstance(value, Mapping) else ()
        return len(set(names)) == len(names) and all(isinstance(own, Mapping) for own in params)


class Ensemble(PredictsViews):
    r"""Several methods, cross-fitted and stacked; the default of `viewgap fit`.

    By default extremely randomised trees, gradient boosting and ridge regression of single views,
    SCSD, and gradient boosting of all views side by side, which learns what only two views together
    tell. Every member predicts every training sample by a copy that was not fitted on it; from
    these probabilities :math:`p_k` of member k comes one weight per member,

    .. math:: \mathrm{logit}\, p = b + \sum_k w_k\, (\mathrm{logit}\, p_k - b),

    with b the log-odds of the frequency of the label. The weights are drawn towards the plain mean
    of the members; labels that were not observed are left out. `leaderboard_`
    shows what each member brings.

    Without `time_budget`, a member that would take more than ten minutes by its size is left out
    (SCSD never is); `methods` names members that are fitted however long they take. Networks
    become committees of which every one leaves out a part of the samples (`cross_fit`).

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(60, 6)), "b": np.ones((60, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.Ensemble(methods=["extra_trees", "late_fusion_ridge"], random_state=0)
    >>> model = model.fit(X, Y)
    >>> model.predict_proba(X).shape
    (60, 2)
    >>> sorted(model.leaderboard_["method"])
    ['ensemble', 'extra_trees', 'late_fusion_ridge']
    """

    keeps_checkpoints: ClassVar[bool] = True
    _shares_fit = True
    summary: ClassVar[str] = "SCSD, trees and ridge regression, cross-fitted and stacked"
    reference: ClassVar[str] = "Wolpert, Stacked generalization, Neural Networks 5(2), 1992"

    methods: Annotated[
        Sequence[str] | Mapping[str, Mapping[str, Any]] | None,
        OrNone(_Methods()),
        Doc(
            "Names of the members (see `viewgap methods`), or a mapping of names to parameters; "
            "None: extra_trees, late_fusion_ridge, gradient_boosting, scsd and joint_boosting."
        ),
    ]
    time_budget: Annotated[
        float | None,
        OrNone(Real(0, None, closed="neither")),
        Doc(
            "Seconds that a fit may take. Members are then fitted in the order of the time they "
            "need, those that there is no time for are left out, and a network is trained as long "
            "as there is time: the result depends on the machine."
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
    weights_: Annotated[dict[str, float], Doc("Weight of every member.")]
    view_weights_: Annotated[
        dict[str, float],
        Doc("Share of every view, averaged over the members that weight views; NaN if none does."),
    ]
    out_of_fold_proba_: Annotated[
        NDArray[np.float64],
        Doc(
            "Stacked out-of-fold probabilities of the training samples, (n_samples, "
            "n_labels). Not kept in a model file."
        ),
    ]

    _keep_all_members = False  # benchmarks measure those without weight too

    def __init__(
        self,
        *,
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
        self._started = time.monotonic()  # this is the first thing that `fit` does
        super()._check_parameters()
        for name in self._wanted():
            if name == _OWN:
                raise SettingError(f"{parameter('methods')}: an ensemble cannot be its own member")
        for name, model in self._make_members().items():
            try:
                model._check_parameters()
            except SettingError as error:
                raise SettingError(f"{parameter('methods')}: {name}: {error}") from error

    def _check_machine(self) -> None:
        choose_runtime(self.device)

    def _wanted(self) -> dict[str, Mapping[str, Any]]:
        if self.methods is None:
            return dict(DEFAULT)
        if isinstance(self.methods, Mapping):
            return dict(self.methods)
        return {name: DEFAULT.get(name, {}) for name in self.methods}

    def _make_members(self) -> dict[str, MultiViewClassifier]:
        """The methods, unfitted and without their seeds."""
        common = {name: getattr(self, name) for name in _COMMON}
        models = {}
        for name, params in self._wanted().items():
            try:
                models[name] = make_member(name, params, common)
            except TypeError as error:  # a parameter that the method does not have
                raise SettingError(f"{parameter('methods')}: {name}: {error}") from error
        return models

    def _seeded_members(self) -> dict[str, MultiViewClassifier]:
        models = self._make_members()
        seeds = seed_words(self._seed, len(models))
        for model, seed in zip(models.values(), seeds, strict=True):
            if getattr(model, "random_state", seed) is None:
                model.random_state = seed
        return models

    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        self._check_machine()
        models = self._seeded_members()
        schedule = Schedule(views, labels, self.time_budget, self._started)
        models = {name: models[name] for name in schedule.order(models)}

        def costs() -> dict[str, Costs]:
            return {name: self._costs(name, m, schedule, validation) for name, m in models.items()}

        def fit(waiting: Models, later: Models, results: Results) -> None:
            self._fit_members(waiting, later, views, labels, validation, results)

        with deferred():
            results = fit_dealt_out(models, self, len(views), costs, fit)
        self.interrupted_ = any_process(self.interrupted_)
        members = [result for result in results.values() if isinstance(result, Member)]
        entries = [_entry_of(name, result) for name, result in results.items()]
        if not members:
            raise_if_requested()
            if self.interrupted_:  # by a signal to another process
                raise Interrupted(at_once=False)
            raise RunError(
                f"no member could be fitted within {parameter('time_budget')} = "
                f"{self.time_budget:g} s ({'; '.join(f'{e.method} {e.note}' for e in entries)}); "
                "give more time, or fewer samples, columns or labels"
            )
        self._stack(members, labels, validation, entries)

    def _costs(
        self,
        name: str,
        model: MultiViewClassifier,
        schedule: Schedule,
        validation: Validation | None,
    ) -> Costs:
        """What a member costs, to deal it out: nothing if it has ended, or will be left out."""
        if KeptMembers(self._checkpoint).has_ended(name):
            return Costs(0.0)
        if schedule.reason_to_leave_out(model, [], self._must(name)):
            return Costs(0.0)
        seconds = min(schedule.expected_seconds(model), self.time_budget or math.inf)
        return Costs(seconds, *schedule.committee(model, validation))

    def _must(self, name: str) -> bool:
        """Whether a member is fitted however long it takes, where there is no time budget."""
        return self.methods is not None or name == _ALWAYS

    def _fit_members(
        self,
        waiting: Models,
        later: Models,
        views: ViewSet,
        labels: Labels,
        validation: Validation | None,
        results: Results,
    ) -> None:
        """Fit the members that wait, one after the other, as far as there is time.

        `later`: those that are fitted after that. What processes fit together is decided by the
        clock of the first one.
        """
        kept = KeptMembers(self._checkpoint)
        self._started -= agreed(lambda: kept.seconds(waiting))
        schedule = Schedule(views, labels, self.time_budget, self._started)
        while waiting:
            name = next(iter(waiting))
            model, others = waiting.pop(name), [*waiting.values(), *later.values()]
            shared = several_processes() is not None  # none of those has ended, says the first one
            result = None if shared else kept.find(name, model, self, len(views))
            if result is None and not agreed(partial(kept.is_begun, name)):
                must = self._must(name)
                result = agreed(partial(schedule.reason_to_leave_out, model, others, must)) or None
                if name == _OF_SEVERAL_VIEWS and not must and views.n_views == 1:
                    result = "left out: there is one view only"
            if result is None:
                data = (views, labels, validation, schedule.deadline_of(model, others))
                result = self._fit_member(name, model, kept, data)
            if isinstance(result, str):
                self._say(f"{name} {result}")
            results[name] = result

    def _fit_member(
        self,
        name: str,
        model: MultiViewClassifier,
        kept: KeptMembers,
        data: tuple[ViewSet, Labels, Validation | None, float | None],
    ) -> Member | str:
        """A fitted member, or why it is left out; what ends by itself is kept in the checkpoint."""
        start = time.monotonic()
        self._say(f"fitting {name}")
        try:
            raise_if_any_requested()
            member = fit_member(name, model, self, *data, kept.folder(name))
        except OutOfTimeError:
            note = "left out: not enough time"
            kept.keep_note(name, note, time.monotonic() - start)
            return note
        except Interrupted as signal:
            if signal.at_once:
                raise
            self.interrupted_ = True
            return "left out: interrupted"
        if model.interrupted_:
            self.interrupted_ = True
        else:
            kept.keep(member)
        return member

    def _say(self, text: str) -> None:
        if self.verbose and is_main_process():
            print(text, file=sys.stderr, flush=True)

    def _stack(
        self,
        members: list[Member],
        labels: Labels,
        validation: Validation | None,
        entries: list[Entry],
    ) -> None:
        """Learn the weights of the members, and leave those out that have next to none."""
        known, truth = _with_validation(members, labels, validation)
        stacking: Stacking
        stacking, kept, stacked = agreed(lambda: _stacked(known, truth))
        self._stacking = stacking
        self.members_ = {members[k].name: members[k].model for k in kept}
        if self._keep_all_members:
            self._all_members = {member.name: member.model for member in members}
        self.out_of_fold_proba_ = stacked[: len(labels)]
        self.thresholds_ = expected_f1_thresholds(np.nan_to_num(stacked, nan=0.5))
        self._entries = [Entry(_OWN), *entries]
        self._fill_entries(members, labels)
        self._summarise()

    def _fill_entries(self, members: list[Member], labels: Labels) -> None:
        shares = dict(zip(self.members_, self._stacking.shares.tolist(), strict=True))
        fitted = {member.name: member for member in members}
        for entry in self._entries[1:]:
            if entry.method in fitted:
                member = fitted[entry.method]
                entry.seconds, entry.weight = member.seconds, shares.get(entry.method, 0.0)
                entry.score, entry.spread = score_with_spread(labels, member.out_of_fold)
                if entry.method not in shares:
                    entry.note = f"left out: less than {_SMALLEST_SHARE:.0%} of the weights"
        own = self._entries[0]
        own.weight, own.seconds = 1.0, time.monotonic() - self._started
        own.score, own.spread = score_with_spread(labels, self.out_of_fold_proba_)

    def _summarise(self) -> None:
        self.weights_ = dict(zip(self.members_, self._stacking.weights.tolist(), strict=True))
        self.leaderboard_: pd.DataFrame = to_frame(self._entries)
        self.view_weights_ = self._mean_view_weights()

    def _mean_view_weights(self) -> dict[str, float]:
        total = np.zeros(len(self.view_names_))
        for name, model in self.members_.items():
            own = getattr(model, "view_weights_", None)
            if own is not None:
                total += self.weights_[name] * np.array([own[view] for view in self.view_names_])
        shares = total / total.sum() if total.sum() > 0 else np.full(len(total), np.nan)
        return dict(zip(self.view_names_, shares.tolist(), strict=True))

    # ------------------------------------------------------------------ prediction

    def _predict_proba(self, views: ViewSet) -> Floats:
        answers = [model._predict_proba(views) for model in self.members_.values()]
        return self._stacking(np.stack(answers).astype(np.float64))

    def _predict_each_view(self, views: ViewSet) -> Iterator[Floats]:
        for j in range(views.n_views):
            rows = np.flatnonzero(views.observed[:, j])
            alone = np.zeros((len(rows), views.n_views), dtype=np.bool_)
            alone[:, j] = True
            values = np.full((len(views), len(self.label_names_)), np.nan)
            if len(rows):
                values[rows] = self._checked_probabilities(views[rows].with_observed(alone))
            yield values

    # ------------------------------------------------------------------ saving and loading

    def _get_state(self) -> State:
        arrays: dict[str, NDArray[Any]] = {
            "weights": self._stacking.weights,
            "shift": np.zeros(len(self.label_names_)) + self._stacking.shift,
            "thresholds": np.asarray(self.thresholds_, dtype=np.float64),
        }
        members = []
        for number, (name, model) in enumerate(self.members_.items()):
            state = model._get_state()
            arrays |= {f"{number}/{key}": array for key, array in state.arrays.items()}
            params = model.get_params(deep=False)
            for unneeded in (*_COMMON, "callbacks", "random_state"):
                params.pop(unneeded, None)
            members.append({"method": name, "params": params, "metadata": state.metadata})
        entries = [entry.to_metadata() for entry in self._entries]
        return State(arrays, {"members": members, "leaderboard": entries})

    def _set_state(self, state: State) -> None:
        stored = state.metadata["members"]
        if not isinstance(stored, list) or not 0 < len(stored) <= _MOST_MEMBERS:
            raise ValueError(f"members must be a list of at most {_MOST_MEMBERS} methods")
        weights = state.array("weights", (len(stored),), np.float64)
        if not (weights > 0).all():
            raise ValueError("the weights of the members must be positive")
        n_labels = len(self.label_names_)
        shift = np.zeros(n_labels)
        if "shift" in state.arrays:  # not in files of earlier versions
            shift = state.array("shift", (n_labels,), np.float64)
        self._stacking = Stacking(weights, shift)
        self.thresholds_ = state.array("thresholds", (n_labels,), np.float64)
        self._entries = entries_from_metadata(state.metadata["leaderboard"], _MOST_MEMBERS + 1)
        self.members_ = {}
        for number, own in enumerate(stored):
            name, arrays = own["method"], state.part(f"{number}/")
            if name == _OWN or name in self.members_:
                raise ValueError(f"{str(name)[:60]!r} cannot be a member, or occurs twice")
            self.members_[name] = self._restore_member(name, own, arrays)
        self._summarise()

    def _restore_member(
        self, name: str, stored: Mapping[str, Any], arrays: dict[str, Any]
    ) -> MultiViewClassifier:
        model = restore_method(name, stored["params"], self.device)
        common = {key: getattr(self, key) for key in _COMMON if key in model.get_params(deep=False)}
        model.set_params(**common)
        share(self, model, fitted=False)
        model._set_state(State(arrays, stored["metadata"]))
        model.is_fitted_ = True
        return model


def _entry_of(name: str, result: Member | str) -> Entry:
    """The line of a member that was fitted, or left out for this reason."""
    if isinstance(result, str):
        return Entry(name, note=result)
    epochs = getattr(result.model, "n_epochs_", 0)
    return Entry(name, note=f"interrupted in epoch {epochs}" if result.model.interrupted_ else "")


def _stacked(known: Floats, truth: Labels) -> tuple[Stacking, NDArray[np.intp], Floats]:
    """The weights, the numbers of the members that have enough of them, and what these say."""
    stacking = Stacking.fit(known, truth)
    kept = np.flatnonzero(stacking.shares >= _SMALLEST_SHARE)
    if len(kept) < len(known):
        stacking = Stacking.fit(known[kept], truth)
    return stacking, kept, stacking(known[kept])


def _with_validation(
    members: Sequence[Member], labels: Labels, validation: Validation | None
) -> tuple[Floats, Labels]:
    """Probabilities (K, n, c) of rows that members were not fitted on, and their labels."""
    known = np.stack([member.out_of_fold for member in members])
    if validation is None or not len(validation[0]):
        return known, labels
    answers = np.stack([member.model._predict_proba(validation[0]) for member in members])
    joined = join_labels([labels, validation[1]])
    return np.concatenate([known, answers.astype(np.float64)], axis=1), joined
