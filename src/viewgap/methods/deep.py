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
from viewgap.nn.reduce import set_reducer
from viewgap.training.batches import Batch, BatchSource, seed_words
from viewgap.training.fit_state import FitState
from viewgap.training.loop import LoopSettings, make_optimiser, train
from viewgap.training.network import DeepNetwork
from viewgap.training.progress import progress
from viewgap.training.runtime import Runtime, choose_runtime

# Prediction always computes blocks of exactly this many rows: matrix kernels round differently for
# different shapes, and a difference in the last bit can choose another code. With one shape, the
# answer for a row does not depend on the rows beside it.
_BLOCK = {"cpu": 32, "cuda": 256}
_CHUNK = 4096
_FEWEST_ROWS_TO_HOLD_OUT = 20


class DeepSettings(Protocol):
    """What the shared part needs to know of a method's settings."""

    @property
    def scaling(self) -> str: ...  # noqa: D102
    @property
    def norm_rows(self) -> str: ...  # noqa: D102
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
        runtime = choose_runtime(self.device, self.precision)
        seeds = _Seeds(*seed_words(self.random_state, 4))
        if validation is None:
            views, labels, validation = self._hold_out(views, labels, seeds.split)
        self.settings_ = settings
        self.scaler_ = Standardiser.fit(views) if settings.scaling == "observed" else None
        layout = _choose_layout(settings)
        source = BatchSource(views, labels, self.scaler_, runtime, layout)
        with runtime.active():
            state = self._start(views, labels, settings, runtime, seeds)
            score = self._scorer(validation, settings, runtime, layout)
            size = sum(parameter.numel() for parameter in self.network_.parameters())
            title, epochs = type(self).__name__, settings.loop().max_epochs
            with runtime.threads_for(size), progress(title, epochs, self.verbose) as show:
                train(state, source, settings.loop(), score, show)
                self._after_training(source)
        self.history_ = state.history
        self.best_epoch_ = state.best_epoch or state.epoch
        self.n_epochs_ = state.epoch

    def _start(
        self,
        views: ViewSet,
        labels: Labels,
        settings: DeepSettings,
        runtime: Runtime,
        seeds: _Seeds,
    ) -> FitState:
        noise = runtime.generator(seeds.noise)
        order = torch.Generator().manual_seed(seeds.order)

        def build() -> DeepNetwork:
            weights = torch.Generator().manual_seed(seeds.weights)
            network = self._build(views.dims, labels, settings, weights)
            network.to(device=runtime.device, dtype=runtime.dtype)
            set_reducer(network, runtime.reducer)
            network.use_noise(noise, order)
            return network

        self.network_ = build()
        averaged = build() if settings.loop().weight_average > 0 else None
        optimiser = make_optimiser(self.network_, settings.loop())
        return FitState(self.network_, optimiser, order, noise, averaged)

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
        self, validation: Validation | None, settings: DeepSettings, runtime: Runtime, layout: str
    ) -> Callable[[DeepNetwork], float] | None:
        """The validation score: mean of AP, 1-RL and AUC over the observed labels."""
        if validation is None or len(validation[0]) == 0:
            return None
        held = BatchSource(*validation, self.scaler_, runtime, layout)
        truth = validation[1].as_float()

        def score(network: DeepNetwork) -> float:
            parts = [network.predict_batch(b) for b in held.in_order(settings.batch_size)]
            metrics = evaluate(truth, torch.cat(parts).cpu().numpy(), variant="field")
            return (metrics["AP"] + metrics["1-RL"] + metrics["AUC"]) / 3

        return score

    # ------------------------------------------------------------------ prediction

    def _predict_proba(self, views: ViewSet) -> NDArray[Any]:
        return self._run(views, self.network_.predict_batch).numpy()

    def _run(self, views: ViewSet, function: Callable[[Batch], Tensor]) -> Tensor:
        """Apply a row-wise function of the network to all rows, in blocks of one shape."""
        with self._evaluating() as runtime:
            block = _BLOCK[runtime.device.type]
            parts = []
            for start in range(0, len(views), _CHUNK):
                chunk = views[start : start + _CHUNK]
                source = BatchSource(chunk, None, self.scaler_, runtime, "dense")
                for rows in torch.arange(len(chunk)).split(block):
                    filled = torch.cat([rows, rows[-1:].expand(block - len(rows))])
                    parts.append(function(source.batch(filled))[: len(rows)].cpu())
            return torch.cat(parts)

    @contextmanager
    def _evaluating(self) -> Iterator[Runtime]:
        parameter = next(self.network_.parameters())
        precision = "float64" if parameter.dtype == torch.float64 else self.precision
        runtime = choose_runtime(str(parameter.device), precision)
        with torch.inference_mode(), runtime.active():
            yield runtime


def _choose_layout(settings: DeepSettings) -> str:
    """Packed rows save more than half of the arithmetic.

    Statistics over all rows, missing ones included, need the missing rows: dense.
    """
    return "packed" if settings.norm_rows == "observed" else "dense"
