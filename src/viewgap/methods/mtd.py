"""MTD: every view split into a shared and a private channel, with masked inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Unpack, cast

import torch
from torch import Tensor, nn

from viewgap.constraints import Choice
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.networks.autoencoders import AutoencoderSettings, mean_over_views
from viewgap.methods.networks.parameters import NetworkParameters
from viewgap.nn.autoencoder import ViewDecoder, ViewEncoder
from viewgap.nn.contrast import channel_contrast, graph_smoothness
from viewgap.nn.dropout import RandomModule
from viewgap.nn.linear import make_linear
from viewgap.nn.losses import masked_bce, squared_error
from viewgap.nn.streams import run_on_streams
from viewgap.parameters import Count, NonNegative, Share, setting
from viewgap.search import Around
from viewgap.training.batches.batch import Batch
from viewgap.training.network import RowwiseNetwork


@dataclass(frozen=True, kw_only=True)
class MTDSettings(AutoencoderSettings):
    """The settings of MTD."""

    alpha: NonNegative = setting(1e-4, "Weight α of the graph term.", Around(10))
    beta: NonNegative = setting(1e-4, "Weight β of the contrast of channels.")
    gamma: NonNegative = setting(0.1, "Weight γ of the reconstruction.")
    fragment: Share = setting(0.25, "Share of the columns of a view hidden in training.")
    reconstruct: Annotated[str, Choice("clean", "masked")] = setting(
        "clean", "What the decoders rebuild: the clean input or, as released, the masked one."
    )
    max_epochs: Count = 200


class _Network(RowwiseNetwork):
    shares_batches = True

    def __init__(
        self,
        dims: Sequence[int],
        n_labels: int,
        settings: MTDSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.settings, self.norm_rows, self.n_views = settings, settings.norm_rows, len(dims)
        sizes = (settings.wide, settings.embedding, generator)
        shared, private = ([ViewEncoder(d, *sizes) for d in dims] for _ in range(2))
        self.shared = cast("Sequence[ViewEncoder]", nn.ModuleList(shared))
        self.private = cast("Sequence[ViewEncoder]", nn.ModuleList(private))
        decoders = [ViewDecoder(d, *sizes) for d in dims]
        self.decoders = cast("Sequence[ViewDecoder]", nn.ModuleList(decoders))
        self.classifier = make_linear(settings.embedding, n_labels, generator)
        self.hide = FragmentMask(settings.fragment)

    @property
    def code_size(self) -> int:
        return 2 * self.settings.embedding

    def encode_view(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        return torch.cat([self.shared[view](x, norm), self.private[view](x, norm)], dim=-1)

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        return self._classify(self._fuse(codes, observed))

    def _fuse(self, codes: Tensor, observed: Tensor) -> Tensor:
        shared, private = mean_over_views(codes, observed).chunk(2, dim=-1)
        return torch.relu(shared * torch.sigmoid(private))

    def _classify(self, fused: Tensor) -> Tensor:
        return torch.sigmoid(self.classifier(fused))

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        settings = self.settings
        masked: list[Tensor] = []
        pieces = [partial(self._encode_masked, batch, v, masked) for v in range(self.n_views)]
        of_rows = run_on_streams(pieces, [[table] for table in batch.views.tables])
        codes = batch.gather(batch.stack(torch.cat(of_rows)), dim=1)
        pieces = [
            partial(self._error, batch, v, of_rows[v], masked[v]) for v in range(self.n_views)
        ]
        uses = [list(pair) for pair in zip(of_rows, masked, strict=True)]
        errors = batch.sum(torch.stack(run_on_streams(pieces, uses)).sum())
        batch = batch.whole
        fused = self._fuse(codes, batch.observed)
        shared, private = codes.chunk(2, dim=-1)
        smooth = graph_smoothness(fused, batch.labels, batch.label_mask, batch.n_samples)
        apart = channel_contrast(shared, private, batch.observed)
        answers = self._classify(fused)
        return {
            "classification": masked_bce(answers, batch.labels, batch.label_mask),
            "reconstruction": settings.gamma * errors / batch.n_samples,
            "channels": settings.beta * apart,
            "graph": settings.alpha * smooth,
        }

    def _encode_masked(self, batch: Batch, view: int, masked: list[Tensor]) -> Tensor:
        """Codes of the rows of a view with some columns hidden; adds those rows to `masked`."""
        with batch.draws_of_view(view):
            x = self.hide(batch.views[view])
        masked.append(x)
        return self.encode_view(view, x, batch.norm_weight(view, self.norm_rows))

    def _error(self, batch: Batch, view: int, codes: Tensor, masked: Tensor) -> Tensor:
        """Sum over the rows of a view of the error of their reconstruction."""
        shared, private = codes.chunk(2, dim=-1)
        table, rows = batch.views.tables[view], batch.views.rows[view]
        if self.settings.reconstruct == "masked":
            table, rows = masked, torch.arange(len(masked), device=masked.device)
        decoder = self.decoders[view]
        hidden = decoder.hidden(shared + private)
        return squared_error(decoder.output, hidden, table, rows, batch.row_weight_of(view))


class MTD(DeepClassifier):
    r"""Masked two-channel decoupling.

    Two encoders per view give a shared code :math:`s^v` and a private code :math:`o^v`; the
    decoder reads their sum. With s and o their means over the views a sample has,
    :math:`z = \mathrm{relu}(s \odot \sigma(o))` and :math:`P = \sigma(F(z))`. In training a run of
    neighbouring columns of every input is set to zero.

    .. math:: L = L_{cls} + \beta L_{ccc} + \gamma L_{AE} + \alpha L_{gc}

    :math:`L_{cls}`: cross-entropy averaged over observed labels; :math:`L_{ccc}`: shared codes of a
    sample agree, all others are orthogonal, summed over samples; :math:`L_{AE}`: reconstruction;
    :math:`L_{gc}`: codes of samples with labels in common are near each other.

    Deviations from the released code. Both profiles: tested on the test rows alone (the released
    test rows contain the validation rows). `profile="default"`: normalisation over observed rows
    only, decoders rebuild the clean input (the released code overwrites its target with the masked
    one), shuffled batches, equal weights in the score, patience of 50 epochs.

    Reference: Liu, Wen, Liu, Huang, Wu, Luo, Xu, NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.MTD(max_epochs=2, wide=16, embedding=8, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = "shared and private channel per view, decoupled; masked inputs"
    reference: ClassVar[str] = (
        "Liu, Wen, Liu et al.: Masked Two-channel Decoupling Framework, NeurIPS 2023"
    )
    certainty: ClassVar[str] = "released code"
    rounds_by_batch: ClassVar[bool] = True

    settings_type = MTDSettings
    network_type = _Network
    profiles: ClassVar = {
        "default": MTDSettings(),
        "paper": MTDSettings(
            norm_rows="all",
            reconstruct="masked",
            shuffle=False,
            score_weights=(0.5, 0.25, 0.5),
            patience=200,
        ),
    }

    def __init__(
        self,
        *,
        embedding: int | None = None,
        wide: int | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
        fragment: float | None = None,
        reconstruct: str | None = None,
        **shared: Unpack[NetworkParameters],
    ) -> None:
        self._store_parameters(locals())


class FragmentMask(RandomModule):
    """Sets a run of neighbouring columns of every row to zero, in training.

    L = int(share · d) columns, the first one uniform on {0, ..., d − L − 2}: as released, the last
    two columns are never hidden. Shape: (R, d) -> (R, d).
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """Rows with their fragment hidden."""
        columns = x.shape[1]
        length = int(self.share * columns)
        if not self.training or length == 0:
            return x
        n_starts = max(columns - length - 1, 1)
        draws = self._draw(
            torch.Size((len(x), 1)),
            lambda shape: torch.rand(shape, generator=self.generator, device=x.device),
        )
        start = (draws * n_starts).floor().clamp(max=n_starts - 1)
        at = torch.arange(columns, device=x.device)
        return x * ((at < start) | (at >= start + length))
