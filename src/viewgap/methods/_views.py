"""What the deep baselines share: masked means over views, masked errors of reconstructed rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from viewgap.nn.autoencoder import ViewDecoder
from viewgap.nn.losses import squared_error
from viewgap.nn.streams import run_on_streams
from viewgap.training.batches import Batch


def mean_over_views(codes: Tensor, observed: Tensor) -> Tensor:
    """Mean of the codes of the views that a sample has. Shape: (m, B, F), (B, m) -> (B, F)."""
    seen = observed.T.unsqueeze(-1).to(codes.dtype)
    return (codes * seen).sum(dim=0) / seen.sum(dim=0).clamp(min=1.0)


def reconstruction_loss(
    batch: Batch, decoders: Sequence[ViewDecoder], codes: Sequence[Tensor]
) -> Tensor:
    """Σ_v wMSE: of every view, the mean over all B·d_v entries of (W_iv (x̂_ij − x_ij))².

    Missing rows count in the denominator. `codes[v]` (R_v, F) belong to the batch's rows of view v.
    """

    def error(view: int) -> Tensor:
        decoder, views = decoders[view], batch.views
        hidden = decoder.hidden(codes[view])
        counted = batch.row_weight_of(view)
        return squared_error(decoder.output, hidden, views.tables[view], views.rows[view], counted)

    pieces = [partial(error, v) for v in range(len(decoders))]
    uses = [[codes[v], batch.views.tables[v], batch.views.rows[v]] for v in range(len(decoders))]
    return torch.stack(run_on_streams(pieces, uses)).sum() / batch.n_samples
