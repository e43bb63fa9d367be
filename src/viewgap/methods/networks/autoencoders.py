"""What the methods with an auto-encoder for every view share: settings, network, reconstruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from viewgap.nn.autoencoder import MakeLinear, ViewDecoder, ViewEncoder
from viewgap.nn.gaussian import MutualInformation
from viewgap.nn.linear import make_linear
from viewgap.nn.losses import squared_error
from viewgap.nn.mlp import MLP
from viewgap.nn.streams import run_on_streams
from viewgap.parameters import Positive, Units, setting
from viewgap.training.batches.batch import Batch
from viewgap.training.network import RowwiseNetwork
from viewgap.training.settings import DeepSettings


@dataclass(frozen=True, kw_only=True)
class AutoencoderSettings(DeepSettings):
    """Sizes of the auto-encoders, trained by stochastic gradient descent."""

    optimiser: ClassVar[str] = "sgd"

    embedding: Units = setting(512, "Size of a code.")
    wide: Units = setting(1500, "Size of the widest hidden layer.")
    learning_rate: Positive = 0.1


class AutoencoderNetwork(RowwiseNetwork):
    """An encoder and a decoder for every view; a subclass adds what answers from the codes."""

    def __init__(
        self,
        dims: Sequence[int],
        settings: Any,
        generator: torch.Generator,
        make: MakeLinear = make_linear,
        square: bool = True,
    ) -> None:
        super().__init__()
        self.settings, self.norm_rows, self.n_views = settings, settings.norm_rows, len(dims)
        sizes = (settings.wide, settings.embedding, generator, make)
        encoders = [ViewEncoder(d, *sizes) for d in dims]
        self.encoders = cast("Sequence[ViewEncoder]", nn.ModuleList(encoders))
        decoders = [ViewDecoder(d, *sizes, square) for d in dims]
        self.decoders = cast("Sequence[ViewDecoder]", nn.ModuleList(decoders))

    @property
    def code_size(self) -> int:
        """See `RowwiseNetwork`."""
        return int(self.settings.embedding)

    def encode_view(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        """See `RowwiseNetwork`."""
        code: Tensor = self.encoders[view](x, norm)
        return code


def mean_over_views(codes: Tensor, observed: Tensor) -> Tensor:
    """Mean of the codes of the views that a sample has. Shape: (m, B, F), (B, m) -> (B, F)."""
    weight = observed.T.unsqueeze(-1).to(codes.dtype)
    return (codes * weight).sum(dim=0) / weight.sum(dim=0).clamp(min=1.0)


def reconstruction_loss(
    batch: Batch, decoders: Sequence[ViewDecoder], codes: Sequence[Tensor]
) -> Tensor:
    """Σ_v wMSE: of every view, the mean over all B·d_v entries of (W_iv (x̂_ij − x_ij))².

    Missing rows count in the denominator. `codes[v]` (R_v, F) belong to the batch's rows of view v.
    """

    def error(view: int) -> Tensor:
        decoder, views = decoders[view], batch.views
        hidden = decoder.hidden(codes[view])
        weight = batch.row_weight_of(view)
        return squared_error(decoder.output, hidden, views.tables[view], views.rows[view], weight)

    pieces = [partial(error, v) for v in range(len(decoders))]
    uses = [[codes[v], batch.views.tables[v], batch.views.rows[v]] for v in range(len(decoders))]
    return batch.sum(torch.stack(run_on_streams(pieces, uses)).sum()) / batch.whole.n_samples


def fused_reconstruction(batch: Batch, decoders: Sequence[MLP], z: Tensor) -> Tensor:
    """Σ_v wMSE: of every view, the mean over all B·d_v entries of (W_iv (x̂ − x))², x̂ from z.

    Every view is decoded for every sample, also for those that do not have it: they count in the
    normalisation, and not in the error. Shape: z (B, F), one code per sample of the whole batch
    -> ().
    """
    own = batch.own(z)

    def error(view: int) -> Tensor:
        decoder, views = decoders[view], batch.views
        with batch.draws_of_samples():
            hidden = decoder.hidden(own, batch.is_sample)[batch.samples_of(view)]
        weight = batch.row_weight_of(view)
        return squared_error(decoder.output, hidden, views.tables[view], views.rows[view], weight)

    pieces = [partial(error, v) for v in range(len(decoders))]
    uses = [[own, *pair] for pair in zip(batch.views.tables, batch.views.rows, strict=True)]
    return batch.sum(torch.stack(run_on_streams(pieces, uses)).sum()) / batch.whole.n_samples


def information_losses(
    batch: Batch, parts: Sequence[MutualInformation], shared: Tensor, specific: Tensor
) -> tuple[Tensor, Tensor]:
    """L_MI, the mean over views of Î(s^v; p^v), and how badly p^v is guessed from s^v.

    Shape: codes of the batch's rows, (ΣR, F) twice -> () twice.
    """
    sizes = batch.sizes
    rows = zip(shared.split(sizes), specific.split(sizes), strict=True)
    terms = []
    for view, ((s, p), part) in enumerate(zip(rows, parts, strict=True)):
        rows_of = (s, p, batch.row_weight_of(view), batch.reducer)
        terms.append(torch.stack([part.bound(*rows_of), part.misfit(*rows_of)]))
    bound, misfit = torch.stack(terms).mean(dim=0)
    return bound, misfit
