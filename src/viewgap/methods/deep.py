"""What every deep method shares: settings, scaling, training, best weights, pure prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from viewgap.constraints import AnyOf, Doc, Flag, Integer, OrNone, Real
from viewgap.data.labels import Labels, SparseLabels, is_too_large
from viewgap.data.preprocessing import Preparation, Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.deprecation import current_tensor_name
from viewgap.errors import parameter
from viewgap.methods.base import PredictsViews, Validation
from viewgap.methods.estimator.numeric_checks import check_state
from viewgap.methods.fitting.held_out import (
    FEWEST_ROWS_TO_HOLD_OUT,
    HeldOutRows,
    hold_out,
    join_labels,
    leave_out_parts,
    make_scorer,
)
from viewgap.methods.fitting.held_out_blocks import answers_of, fit_on_some_rows, held_out_groups
from viewgap.methods.fitting.pooling import fit_pooling, pooled, view_weights
from viewgap.methods.fitting.processes import (
    device_here,
    several_processes,
    shared_runtime,
    take_from_first,
)
from viewgap.methods.fitting.random_state import seed_words
from viewgap.methods.networks.epoch_tasks import epoch_tasks
from viewgap.methods.networks.stored import checked_epoch, checked_history, network_for
from viewgap.methods.profiled import (
    WITHOUT_THEM,
    DataSize,
    ProfiledClassifier,
    check_label_matrices,
)
from viewgap.metrics import ThresholdStream, expected_f1_thresholds
from viewgap.nn.linear import set_matmul_dtype
from viewgap.nn.pooling import LogOddsPooling
from viewgap.nn.reduce import set_reducer
from viewgap.state import State
from viewgap.training.batches.sampled import Layout
from viewgap.training.batches.source import BatchSource
from viewgap.training.callbacks import Callback, Callbacks, progress
from viewgap.training.checkpointing import EpochCheckpoints, StopOnSignal
from viewgap.training.committee import Committee, networks_of, own_generators
from viewgap.training.cross_fit import Parts
from viewgap.training.fit_state import FitState
from viewgap.training.loop import train
from viewgap.training.network import RowwiseNetwork
from viewgap.training.prediction import RowFunction, probabilities, run_by_view, view_probabilities
from viewgap.training.runtime import DEVICE, PRECISION, Runtime, choose_runtime
from viewgap.training.settings import DeepSettings
from viewgap.training.steps.epoch import make_optimiser
from viewgap.training.steps.warm_up import Zeros, compile_ahead, in_background


class _Seeds(NamedTuple):
    weights: int
    order: int
    noise: int
    split: int


class DeepClassifier(PredictsViews, ProfiledClassifier):
    """Base of the methods that train a network.

    Besides what `ProfiledClassifier` asks for, a method names its `network_type`, made from
    (columns of the views, number of labels, settings, random generator).

    What a fit is stopped by, and what is kept as `history_["validation_score"]`: `training.scores`.
    """

    keeps_checkpoints = True
    settings_type: ClassVar[type[DeepSettings]]
    network_type: ClassVar[Callable[..., RowwiseNetwork]]
    _fits_in_epochs = _shares_fit = True

    device: Annotated[
        str,
        DEVICE,
        Doc("Where to compute: 'auto' (a GPU if there is one), 'cpu', 'cuda' or 'cuda:1'."),
    ]
    precision: Annotated[str, PRECISION, Doc("Number format; 'auto' goes by the device.")]
    validation_fraction: Annotated[
        float,
        Real(0, 1, closed="left"),
        Doc(
            "Share of the training rows held out where `fit` gets no `validation` and the networks "
            "are not cross-fitted, to choose the epoch and for whatever else is learned from such "
            "rows. Of fewer than 20 rows none is, with a warning, and the weights of the last "
            "epoch are kept. 0: train on all rows for `max_epochs`, without cross-fitting."
        ),
    ]
    callbacks: Annotated[
        Sequence[Callback] | None,
        OrNone(Callbacks()),
        Doc("Called before and after training and every epoch; not kept in a model file."),
    ]
    verbose: Annotated[bool | int, AnyOf(Flag(), Integer(0)), Doc("Whether to show progress.")]

    network_: RowwiseNetwork
    scaler_: Standardiser | None
    history_: Annotated[
        dict[str, list[float]], Doc("Terms of the loss and validation score of every epoch.")
    ]
    best_epoch_: Annotated[int, Doc("Epoch whose weights were kept.")]
    n_epochs_: Annotated[int, Doc("Number of epochs trained.")]
    out_of_fold_proba_: Annotated[
        NDArray[np.float64],
        Doc(
            "Probabilities of the training samples, each by the network that left it out, where "
            "the networks are cross-fitted and the labels are not too many for a matrix; not kept "
            "in a model file."
        ),
    ]

    # ------------------------------------------------------------------ what a method implements

    def _make(
        self, dims: tuple[int, ...], n_labels: int, settings: Any, generator: torch.Generator
    ) -> RowwiseNetwork:
        """The network, with weights drawn from `generator` (on the CPU)."""
        networks = [
            type(self).network_type(dims, n_labels, settings, own)
            for own in own_generators(generator, settings.n_networks)
        ]
        if settings.pooling == "log_odds":
            return Committee(networks, LogOddsPooling(len(dims), n_labels))
        return Committee(networks) if len(networks) > 1 else networks[0]

    def _label_matrices(self, settings: Any, n_views: int) -> float:
        """How many matrices of labels x labels a network keeps in training, about (0: none)."""
        return 0.0

    def _remedy_for_many_labels(self) -> str:
        """What helps where those matrices do not fit into memory."""
        return WITHOUT_THEM

    def _after_training(self, source: BatchSource) -> None:
        """Called with the best weights restored and the training rows at hand."""

    def _summarise(self) -> None:
        """Set the attributes that tell about a fitted network, after `fit` and after loading."""
        self.thresholds_ = 0.5
        pooling = self._pooling
        if pooling is not None:
            self.view_weights_ = view_weights(pooling, self.view_names_)
            self.thresholds_ = pooling.threshold.cpu().numpy().astype(np.float64)

    @property
    def _pooling(self) -> LogOddsPooling | None:
        return self.network_.pooling if isinstance(self.network_, Committee) else None

    # ------------------------------------------------------------------ fitting

    def _less_to_fit(self) -> str:
        return (
            f"lower {parameter('batch_size')} or {parameter('n_networks')}, choose a "
            "smaller network, fit fewer samples or columns, or use a machine with more memory"
        )

    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        self._check_machine()
        size = DataSize(len(views), labels.n_observed)
        settings: DeepSettings = self._resolve(labels.n_labels, size)
        seeds = _Seeds(*seed_words(self._seed, 4))
        views, labels, held_out = self._hold_out(views, labels, validation, settings, seeds.split)
        matrices = settings.n_networks * self._label_matrices(settings, views.n_views)
        check_label_matrices(
            type(self).__name__, matrices, labels.n_labels, self._remedy_for_many_labels()
        )
        self.settings_ = settings
        weights = torch.Generator().manual_seed(seeds.weights)
        drawn = in_background(lambda: self._make(views.dims, labels.n_labels, settings, weights))
        runtime, warm = self._warm_up(views, labels.n_labels, settings, seeds, held_out.parts)
        self.scaler_ = None
        if settings.scaling == "observed":
            self.scaler_ = Standardiser.fit(views, features=settings.features)
        if warm is None:
            device = device_here(self.device)
            runtime = choose_runtime(device, self.precision, drawn.result().largest)
            runtime = shared_runtime(runtime, drawn.result(), type(self).__name__)
        fill = seeds.noise if settings.fills_with_noise else None
        source = BatchSource(
            views,
            labels,
            self._preparation(),
            runtime,
            noise_seed=fill,
            parts=held_out.parts,
            shuffle_window=settings.shuffle_window,
        )
        self.network_ = drawn.result()
        self._prepare_network(labels, source, held_out.parts)
        if warm is not None:
            warm.result()
        with runtime.active():
            state = self._start(settings, runtime, seeds)
            score = make_scorer(state, source, held_out, labels, settings, self._preparation())
            callbacks = self._begin_or_go_on(state, runtime)
            with runtime.threads_for(self.network_.work) as threads:
                workers = min(threads, settings.n_networks)
                train(state, source, settings, score, callbacks, workers)
                self._after_training(source)
        set_matmul_dtype(self.network_, None)
        self.interrupted_ = state.interrupted
        self.history_ = state.history
        self.best_epoch_ = state.best_epoch or state.epoch
        self.n_epochs_ = state.epoch
        self._learn_from_held_out(views, labels, held_out)
        take_from_first(self.network_)
        self._summarise()

    def _begin_or_go_on(self, state: FitState, runtime: Runtime) -> list[Callback]:
        """The callbacks of a fit; one that was begun before is restored from its checkpoint."""
        callbacks = [*(self.callbacks or ()), *epoch_tasks(self)]
        if self.verbose:
            callbacks.append(progress(type(self).__name__))
        callbacks.append(StopOnSignal())
        if self._checkpoint is not None:
            checkpoints = EpochCheckpoints(self._checkpoint, {"precision": runtime.precision})
            checkpoints.restore(state)
            callbacks.append(checkpoints)
        return callbacks

    def _warm_up(
        self,
        views: ViewSet,
        n_labels: int,
        settings: DeepSettings,
        seeds: _Seeds,
        parts: Parts | None,
    ) -> tuple[Runtime, Future[None] | None]:
        """On a GPU, begin to compile what the fit will need; also where it will run."""
        runtime = choose_runtime(device_here(self.device), self.precision)
        ahead = getattr(type(self).network_type, "compiles_ahead", False)
        if runtime.device.type != "cuda" or not ahead or several_processes() is not None:
            return runtime, None
        with torch.device(runtime.device):
            one = replace(settings, n_networks=1)
            sketch = self._make(views.dims, n_labels, one, runtime.generator(0))
        network, order = networks_of(sketch)[0], torch.Generator().manual_seed(seeds.order)
        runtime = choose_runtime(self.device, self.precision, network.largest)
        rows = Zeros(views, n_labels, runtime, parts)
        return runtime, in_background(lambda: compile_ahead(network, rows, settings, order))

    def _prepare_network(self, labels: Labels, source: BatchSource, parts: Parts | None) -> None:
        if parts is not None and isinstance(self.network_, Committee):
            self.network_.prepare_parts(labels, source, parts)
        else:
            self.network_.prepare(labels)
            self.network_.prepare_rows(source, np.arange(len(labels)))

    def _check_machine(self) -> None:
        choose_runtime(self.device, self.precision)

    def _preparation(self) -> Preparation:
        """How rows of the data become input of the network, missing values included."""
        return self._unscaled() if self.scaler_ is None else self.scaler_

    def _start(self, settings: DeepSettings, runtime: Runtime, seeds: _Seeds) -> FitState:
        noise = runtime.generator(seeds.noise)
        order = torch.Generator().manual_seed(seeds.order)
        network = self.network_.to(device=runtime.device, dtype=runtime.dtype)
        set_reducer(network, runtime.reducer)
        set_matmul_dtype(network, runtime.matmul_dtype)
        network.use_noise(noise)
        optimiser = make_optimiser(network, settings)
        average = settings.ema_decay > 0
        return FitState(network, optimiser, order, noise, average)

    def _hold_out(
        self,
        views: ViewSet,
        labels: Labels,
        validation: Validation | None,
        settings: DeepSettings,
        seed: int,
    ) -> tuple[ViewSet, Labels, HeldOutRows]:
        """Rows to train on, and those to stop by: given, left out by parts, or set aside."""
        n = len(views) - self.n_unlabeled_
        if self._cross_fits(settings, validation) and n >= FEWEST_ROWS_TO_HOLD_OUT:
            parts = leave_out_parts(views, labels[:n], settings.n_networks, seed)
            return views, labels, HeldOutRows(validation, parts)
        if validation is not None:
            return views, labels, HeldOutRows(validation)
        held = hold_out(views, n, self.validation_fraction, seed, settings.max_epochs)
        if held is None:
            return views, labels, HeldOutRows()
        kept = np.setdiff1d(np.arange(len(views)), held)
        return views[kept], labels[kept], HeldOutRows((views[held], labels[held]))

    def _cross_fits(self, settings: DeepSettings, validation: Validation | None) -> bool:
        several = settings.cross_fit and settings.n_networks > 1
        return several and (validation is not None or self.validation_fraction > 0)

    def _learn_from_held_out(self, views: ViewSet, labels: Labels, held_out: HeldOutRows) -> None:
        """Fit the pooling of the views and the thresholds on rows that were not trained on."""
        self.__dict__.pop("out_of_fold_proba_", None)
        if isinstance(labels, SparseLabels):
            self._learn_in_blocks(views, labels, held_out)
            return
        parts, pooling, c = held_out.parts, self._pooling, labels.n_labels
        if pooling is None:
            if parts is not None:
                self._keep_out_of_fold(self._out_of_fold(views, parts, probabilities))
            return
        by_view = partial(view_probabilities, n_labels=c)
        known, truth = [], []
        if parts is not None:
            left_out = self._out_of_fold(views, parts, by_view).transpose(1, 0, 2)
            rows = np.flatnonzero(parts.number >= 0)
            known.append(left_out if len(rows) == len(views) else left_out[:, rows])
            truth.append(labels[rows])
        if held_out.validation is not None and len(held_out.validation[0]):
            answers = self._run(held_out.validation[0], by_view(self.network_))
            known.append(answers.transpose(1, 0, 2))
            truth.append(held_out.validation[1])
        if known:
            predictions = known[0] if len(known) == 1 else np.concatenate(known, axis=1)
            fit_pooling(pooling, predictions, join_labels(truth), labels)
            thresholds = expected_f1_thresholds(pooled(pooling, predictions))
            pooling.threshold.copy_(torch.from_numpy(thresholds))
        if parts is not None:
            together = pooled(pooling, left_out)
            self._keep_out_of_fold(np.where(parts.number[:, None] >= 0, together, np.nan))

    def _learn_in_blocks(self, views: ViewSet, labels: SparseLabels, held_out: HeldOutRows) -> None:
        """The same for labels that are too many to predict all rows at once."""
        groups = held_out_groups(self.network_, views, labels, held_out)
        pooling, kept = self._pooling, None
        if held_out.parts is not None and not is_too_large(labels.shape):
            kept = np.full(labels.shape, np.nan)
        if not groups or (pooling is None and kept is None):
            return
        thresholds = None
        if pooling is not None:
            fit_on_some_rows(pooling, groups, labels, self._run)
            thresholds = ThresholdStream(labels.n_labels)
        for rows, answers in answers_of(groups, self._run):
            if thresholds is not None:
                thresholds.add(answers)
            if kept is not None:
                kept[rows[rows >= 0]] = answers[rows >= 0]
        if pooling is not None and thresholds is not None:
            pooling.threshold.copy_(torch.from_numpy(thresholds.result()))
        if kept is not None:
            self._keep_out_of_fold(kept)

    def _out_of_fold(
        self, views: ViewSet, parts: Parts, function: Callable[[RowwiseNetwork], RowFunction]
    ) -> NDArray[Any]:
        """What every network says of the rows that it leaves out, (n, ...); NaN for others."""
        result: NDArray[Any] | None = None
        for part, network in enumerate(networks_of(self.network_)):
            rows = parts.left_out(part)
            if len(rows):
                values = self._run(views[rows], function(network))
                if result is None:
                    result = np.full((len(views), *values.shape[1:]), np.nan, dtype=values.dtype)
                result[rows] = values
        assert result is not None  # noqa: S101  (there are parts, so there are rows)
        return result

    def _keep_out_of_fold(self, probabilities: NDArray[Any]) -> None:
        """Of the labelled rows; one that no network leaves out gets the label frequencies."""
        own = probabilities[: len(probabilities) - self.n_unlabeled_].astype(np.float64)
        without = np.isnan(own).all(axis=1)
        own[without] = self.label_frequency_
        own[:, np.isnan(self.label_frequency_)] = np.nan
        self.out_of_fold_proba_ = own

    # ------------------------------------------------------------------ prediction

    def _predict_each_view(self, views: ViewSet) -> NDArray[Any]:
        function = view_probabilities(self.network_, len(self.label_names_))
        answers = self._run(views, function).astype(np.float64)
        self._check_finite(views, np.where(views.observed[:, :, None], answers, 0.0))
        return answers.swapaxes(0, 1)

    predict_views = available_if(lambda self: self._answers_single_views)(
        PredictsViews.predict_views
    )

    @property
    def _answers_single_views(self) -> bool:
        """False where a sample is predicted with its batch; unknown before `fit`."""
        return not hasattr(self, "settings_") or bool(self.settings_.prediction == "row")

    def _predict_proba(self, views: ViewSet) -> NDArray[Any]:
        if self.settings_.prediction == "batch":
            return self._predict_in_batches(views)
        return self._run(views, probabilities(self.network_))

    def _predict_in_batches(self, views: ViewSet) -> NDArray[Any]:
        """As released: batches in the order given, whose rows have to do with each other."""
        with self._evaluating() as runtime:
            self.network_.use_noise(runtime.generator(0))
            source = BatchSource(views, None, self._preparation(), runtime)
            batches = source.in_order(self.settings_.batch_size, Layout("dense"))
            return torch.cat([self.network_.predict_batch(b).cpu() for b in batches]).numpy()

    def _run(self, views: ViewSet, function: RowFunction) -> NDArray[Any]:
        """Apply a row-wise function of the network to all rows."""
        with self._evaluating() as runtime:
            return run_by_view(views, self._preparation(), runtime, function)

    @contextmanager
    def _evaluating(self) -> Iterator[Runtime]:
        weight = next(self.network_.parameters())
        precision = "float64" if weight.dtype == torch.float64 else self.precision
        runtime = choose_runtime(str(weight.device), precision)
        with torch.inference_mode(), runtime.active():
            yield runtime

    # ------------------------------------------------------------------ saving and loading

    def _check_numbers(self) -> None:
        """As for every method; of a network on a GPU without a copy of all its weights."""
        tensors = [v for v in self.network_.state_dict().values() if v.is_floating_point()]
        on_gpu = tensors[0].device.type != "cpu"
        if not on_gpu or not bool(torch.stack([v.isfinite().all() for v in tensors]).all()):
            super()._check_numbers()  # tells which
        elif self.scaler_ is not None:
            check_state(type(self).__name__, State(self.scaler_.to_arrays(), {}))

    def _get_state(self) -> State:
        network = self.network_.state_dict()
        arrays = {f"network/{k}": v.detach().cpu().numpy() for k, v in network.items()}
        if self.scaler_ is not None:
            arrays |= {f"scaler/{k}": v for k, v in self.scaler_.to_arrays().items()}
        metadata = {
            "settings": asdict(self.settings_),
            "history": self.history_,
            "best_epoch": self.best_epoch_,
            "n_epochs": self.n_epochs_,
        }
        return State(arrays, metadata)

    def _set_state(self, state: State) -> None:
        self.settings_ = self._stored_settings(state.metadata["settings"])
        stored = state.part("network/").items()
        tensors = {
            current_tensor_name(k): torch.from_numpy(np.require(v, None, "W")) for k, v in stored
        }
        network = network_for(tensors, self._untrained)
        formats = [v.dtype for v in tensors.values() if v.is_floating_point()]
        if not set(formats) <= {torch.float32, torch.float64}:
            raise ValueError("the weights of a network must be float32 or float64")
        network.to(dtype=formats[0]).load_state_dict(tensors)
        self.network_ = network.to(choose_runtime(self.device, self.precision).device).eval()
        scaler = state.part("scaler/")
        self.scaler_ = Standardiser.from_arrays(scaler, self.view_names_) if scaler else None
        if self.scaler_ is not None and self.scaler_.dims != self.view_dims_:
            raise ValueError("the scaling does not fit the columns of the views")
        self.history_ = checked_history(state.metadata["history"])
        self.best_epoch_ = checked_epoch(state.metadata["best_epoch"])
        self.n_epochs_ = checked_epoch(state.metadata["n_epochs"])
        self._summarise()

    def _untrained(self) -> RowwiseNetwork:
        """A network of the sizes and settings of this model, with any weights."""
        sizes = (self.view_dims_, len(self.label_names_), self.settings_)
        network = self._make(*sizes, torch.Generator().manual_seed(0))
        network.end_training()
        return network
