"""What every deep method shares: hold out, scale, train, keep the best weights, predict purely."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.data.labels import Labels
from viewgap.data.scaling import Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError
from viewgap.methods.base import MultiViewClassifier, Validation
from viewgap.metrics import evaluate
from viewgap.nn.mlp import set_operands
from viewgap.nn.reduce import set_reducer
from viewgap.training.batches import BatchSource, seed_words
from viewgap.training.fit_state import FitState
from viewgap.training.loop import train
from viewgap.training.network import DeepNetwork
from viewgap.training.plan import Layout
from viewgap.training.prediction import RowFunction, run_by_view
from viewgap.training.progress import progress
from viewgap.training.replay import Replay
from viewgap.training.runtime import Runtime, choose_runtime
from viewgap.training.steps import LoopSettings, make_optimiser

_FEWEST_ROWS_TO_HOLD_OUT = 20


class DeepSettings(Protocol):
    """What the shared part needs to know of a method's settings."""

    @property
    def scaling(self) -> str: ...  # noqa: D102
    @property
    def batch_size(self) -> int: ...  # noqa: D102
    def loop(self) -> LoopSettings: ...  # noqa: D102


class _Seeds(NamedTuple):
    weights: int
    order: int
    noise: int
    split: int


class DeepClassifier(MultiViewClassifier):
    """Base of the methods that train a network.

    Besides the parameters of every method: `random_state` (an int fixes every bit of a fit on the
    CPU), `device` and `precision` (`"auto"`, see `training.runtime`), `validation_fraction` (share
    of the training rows held out for early stopping when `fit` gets no `validation`), `verbose`.
    """

    random_state: int | None
    device: str
    precision: str
    validation_fraction: float
    verbose: bool

    network_: DeepNetwork
    scaler_: Standardiser | None
    history_: dict[str, list[float]]
    best_epoch_: int
    n_epochs_: int

    # ------------------------------------------------------------------ what a method implements

    @abstractmethod
    def _resolve(self, n_labels: int) -> Any:
        """The settings of this fit (a `DeepSettings`): profile, and what the user set instead."""

    @abstractmethod
    def _build(
        self, dims: tuple[int, ...], labels: Labels, settings: Any, generator: torch.Generator
    ) -> DeepNetwork:
        """The network, with weights drawn from `generator` (on the CPU)."""

    # ------------------------------------------------------------------ fitting

    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        settings: DeepSettings = self._resolve(labels.n_labels)
        seeds = _Seeds(*seed_words(self.random_state, 4))
        if validation is None:
            views, labels, validation = self._hold_out(views, labels, seeds.split)
        self.settings_ = settings
        self.scaler_ = Standardiser.fit(views) if settings.scaling == "observed" else None
        weights = torch.Generator().manual_seed(seeds.weights)
        self.network_ = self._build(views.dims, labels, settings, weights)
        runtime = choose_runtime(self.device, self.precision, self.network_.size)
        source = BatchSource(views, labels, self.scaler_, runtime)
        with runtime.active():
            state = self._start(settings, runtime, seeds)
            score = self._scorer(state, validation, settings, runtime)
            title, epochs = type(self).__name__, settings.loop().max_epochs
            with (
                runtime.threads_for(self.network_.work),
                progress(title, epochs, self.verbose) as show,
            ):
                train(state, source, settings.loop(), score, show)
                self._after_training(source)
        set_operands(self.network_, None)
        self.history_ = state.history
        self.best_epoch_ = state.best_epoch or state.epoch
        self.n_epochs_ = state.epoch

    def _start(self, settings: DeepSettings, runtime: Runtime, seeds: _Seeds) -> FitState:
        noise = runtime.generator(seeds.noise)
        order = torch.Generator().manual_seed(seeds.order)
        network = self.network_.to(device=runtime.device, dtype=runtime.dtype)
        set_reducer(network, runtime.reducer)
        set_operands(network, runtime.operands)
        network.use_noise(noise)
        optimiser = make_optimiser(network, settings.loop())
        average = settings.loop().weight_average > 0
        return FitState(network, optimiser, order, noise, average)

    def _after_training(self, source: BatchSource) -> None:
        """Called with the best weights restored and the training rows at hand."""

    def _hold_out(
        self, views: ViewSet, labels: Labels, seed: int
    ) -> tuple[ViewSet, Labels, Validation | None]:
        """Set training rows aside to stop by; too few rows are all used for training."""
        if not 0.0 <= self.validation_fraction < 1.0:
            raise SettingError(
                f"validation_fraction must lie in [0, 1), found {self.validation_fraction}"
            )
        n = len(views)
        count = math.ceil(n * self.validation_fraction)
        if count == 0 or n < _FEWEST_ROWS_TO_HOLD_OUT:
            return views, labels, None
        order = np.random.default_rng(seed).permutation(n)
        held, kept = np.sort(order[:count]), np.sort(order[count:])
        if not views.observed[kept].any(axis=0).all():
            return views, labels, None  # a view seen only in held-out rows could not be learned
        return views[kept], labels[kept], (views[held], labels[held])

    def _scorer(
        self,
        state: FitState,
        validation: Validation | None,
        settings: DeepSettings,
        runtime: Runtime,
    ) -> Callable[[], float] | None:
        """The validation score: mean of AP, 1-RL and AUC over the observed labels."""
        if validation is None or len(validation[0]) == 0:
            return None
        held = BatchSource(*validation, self.scaler_, runtime)
        truth = validation[1].as_float()
        network, layout = state.evaluated(), Layout(state.network.layout.rows)

        def predict() -> Tensor:
            batches = held.in_order(settings.batch_size, layout)
            return torch.cat([network.predict_batch(b) for b in batches])

        replay = Replay(predict, held.replay_device)

        def score() -> float:
            metrics = evaluate(truth, replay().cpu().numpy(), variant="field")
            return (metrics["AP"] + metrics["1-RL"] + metrics["AUC"]) / 3

        return score

    # ------------------------------------------------------------------ prediction

    def _run(self, views: ViewSet, function: RowFunction) -> NDArray[Any]:
        """Apply a row-wise function of the network to all rows."""
        with self._evaluating() as runtime:
            return run_by_view(views, self.scaler_, runtime, function)

    @contextmanager
    def _evaluating(self) -> Iterator[Runtime]:
        parameter = next(self.network_.parameters())
        precision = "float64" if parameter.dtype == torch.float64 else self.precision
        runtime = choose_runtime(str(parameter.device), precision)
        with torch.inference_mode(), runtime.active():
            yield runtime
