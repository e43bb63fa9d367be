"""Several networks trained side by side, and pooling of their views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from viewgap.data.labels import Labels
from viewgap.nn.pooling import LogOddsPooling
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.sampled import Layout
from viewgap.training.batches.source import BatchSource
from viewgap.training.cross_fit import Parts
from viewgap.training.network import DeepNetwork, RowwiseNetwork

Network = TypeVar("Network", bound=DeepNetwork)


class Committee(RowwiseNetwork):
    """Networks that differ in their initial weights and their dropout, and answer together.

    Parameters
    ----------
    networks : sequence of RowwiseNetwork
        Networks for the same views and labels; no network sees another in training.
    pooling : LogOddsPooling, optional
        With it, the prediction of a view is the mean over the networks, and the predictions of the
        views are pooled by their log-odds. Without, the answers of the networks are averaged.

    Notes
    -----
    Early stopping looks at the common answer, which varies less than that of a single network.
    """

    def __init__(
        self, networks: Sequence[RowwiseNetwork], pooling: LogOddsPooling | None = None
    ) -> None:
        super().__init__()
        self.networks = cast("Sequence[RowwiseNetwork]", nn.ModuleList(networks))
        self.pooling = pooling
        self.norm_rows, self.n_views = networks[0].norm_rows, networks[0].n_views

    # ------------------------------------------------------------------ training

    @property
    def shares_batches(self) -> bool:  # type: ignore[override]
        """Whether all networks do."""
        return all(network.shares_batches for network in self.networks)

    @property
    def layout(self) -> Layout:
        """That of every network."""
        return self.networks[0].layout

    @property
    def largest(self) -> int:
        """See `DeepNetwork`: every network is computed on its own."""
        return max(network.largest for network in self.networks)

    @property
    def work(self) -> int:
        """See `DeepNetwork`."""
        return max(network.work for network in self.networks)

    def prepare(self, labels: Labels) -> None:
        """See `DeepNetwork`."""
        for network in self.networks:
            network.prepare(labels)

    def prepare_rows(self, source: BatchSource, rows: NDArray[np.intp]) -> None:
        """See `DeepNetwork`."""
        for network in self.networks:
            network.prepare_rows(source, rows)

    def prepare_parts(self, labels: Labels, source: BatchSource, parts: Parts) -> None:
        """As `prepare` and `prepare_rows`, where every network leaves out its part of the rows."""
        for part, network in enumerate(self.networks):
            network.prepare(parts.labels_for(part, labels))
            network.prepare_rows(source, np.flatnonzero(parts.number != part))

    def allocate(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """See `DeepNetwork`."""
        for number, network in enumerate(self.networks):
            own, items = f"networks.{number}.", shapes.items()
            network.allocate({k.removeprefix(own): v for k, v in items if k.startswith(own)})

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        """The loss terms of the networks, averaged."""
        terms = [network.loss_terms(batch) for network in self.networks]
        return {name: torch.stack([own[name] for own in terms]).mean() for name in terms[0]}

    def use_noise(self, noise: torch.Generator) -> None:
        """See `DeepNetwork`; each network has a generator of its own, to be computed by itself."""
        for network, own in zip(
            self.networks, own_generators(noise, len(self.networks)), strict=True
        ):
            network.use_noise(own)

    def begin_epoch(self) -> None:
        """See `DeepNetwork`."""
        for network in self.networks:
            network.begin_epoch()

    @property
    def finishes_epochs(self) -> bool:
        """See `DeepNetwork`."""
        return any(network.finishes_epochs for network in self.networks)

    def finish_epoch(self, source: BatchSource) -> None:
        """See `DeepNetwork`."""
        for network in self.networks:
            network.finish_epoch(source)

    def epoch_metrics(self) -> dict[str, float]:
        """Means over the networks."""
        metrics = [network.epoch_metrics() for network in self.networks]
        return {name: sum(own[name] for own in metrics) / len(metrics) for name in metrics[0]}

    def end_training(self) -> None:
        """See `DeepNetwork`."""
        for network in self.networks:
            network.end_training()

    def predict_batch(self, batch: Batch) -> Tensor:
        """See `DeepNetwork`."""
        if self.pooling is None:
            return mean([network.predict_batch(batch) for network in self.networks])
        pooled: Tensor = self.pooling(self.predict_views_of(batch), batch.observed)
        return pooled

    def predict_batch_by(self, number: int, batch: Batch) -> Tensor:
        """What one of the networks alone answers, pooled as the answers of all are, (B, c)."""
        network = self.networks[number]
        if self.pooling is None:
            return network.predict_batch(batch)
        pooled: Tensor = self.pooling(network.predict_views_of(batch), batch.observed)
        return pooled

    def predict_views_of(self, batch: Batch) -> Tensor:
        """See `RowwiseNetwork`."""
        return mean([network.predict_views_of(batch) for network in self.networks])

    # ------------------------------------------------------------------ rows, in evaluation

    @property
    def encoder_size(self) -> int:
        """That of all networks."""
        return sum(network.encoder_size for network in self.networks)

    @property
    def code_size(self) -> int:
        """Labels, where predictions of views are pooled; else the codes of all networks."""
        return len(self.pooling.prior) if self.pooling else sum(self._code_sizes)

    @property
    def _code_sizes(self) -> list[int]:
        return [network.code_size for network in self.networks]

    @property
    def elementwise_answer(self) -> bool:
        """See `RowwiseNetwork`."""
        return self.pooling is not None or all(n.elementwise_answer for n in self.networks)

    def encode_view(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        """See `RowwiseNetwork`."""
        return self._joined(view, [network.encode_view(view, x, norm) for network in self.networks])

    def encode_rows(self, view: int, x: Tensor, n_rows: int) -> Tensor:
        """See `RowwiseNetwork`."""
        return self._joined(view, [net.encode_rows(view, x, n_rows) for net in self.networks])

    def _joined(self, view: int, codes: list[Tensor]) -> Tensor:
        return torch.cat(codes, dim=1) if self.pooling is None else self._predict_view(view, codes)

    def _predict_view(self, view: int, codes: Sequence[Tensor]) -> Tensor:
        networks = zip(self.networks, codes, strict=True)
        return mean([network.predict_view(view, own) for network, own in networks])

    def predict_view(self, view: int, codes: Tensor) -> Tensor:
        """See `RowwiseNetwork`."""
        if self.pooling is not None:
            return codes
        return self._predict_view(view, codes.split(self._code_sizes, dim=1))

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        """See `RowwiseNetwork`. Log-odds are pooled in float64 in any precision."""
        if self.pooling is not None:
            pooled: Tensor = self.pooling(codes.double(), observed)
            return pooled.to(codes.dtype)
        parts = zip(self.networks, codes.split(self._code_sizes, dim=2), strict=True)
        return mean([network.answer(own, observed) for network, own in parts])


def mean(values: Sequence[Tensor]) -> Tensor:
    """Elementwise mean, added up in order: it rounds alike for any number of rows."""
    total = values[0]
    for own in values[1:]:
        total = total + own
    return total / len(values) if len(values) > 1 else total


def own_generators(first: torch.Generator, count: int) -> list[torch.Generator]:
    """A generator for every network: with a common one, draws would depend on who comes first."""
    seeds = range(first.initial_seed() + 1, first.initial_seed() + count)
    return [first, *(torch.Generator(first.device).manual_seed(seed) for seed in seeds)]


def networks_of(network: Network) -> Sequence[Network]:
    """The networks of a committee, or the one network."""
    if isinstance(network, Committee):
        return cast("Sequence[Network]", network.networks)
    return [network]
