"""The network of SCSD and its loss, equation by equation.

Letters as in the paper: view v of m, x^v features, z^v code, ẑ^v quantised code, P^v prediction of
a view, P fused prediction, W observed views, G observed labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from viewgap.methods._scsd_settings import SCSDSettings
from viewgap.nn.codebook import SharedCodebook
from viewgap.nn.fusion import fusion_weights, view_quality
from viewgap.nn.losses import bce_cells, masked_bce, teacher_bce_rows
from viewgap.nn.mlp import MLP, Dropout, make_linear
from viewgap.nn.reduce import LOCAL, Reducer, weighted_mean
from viewgap.training.batches import Batch, BatchSource, stack_views
from viewgap.training.network import DeepNetwork

_QUALITY_ROWS = 512


class SCSDNetwork(DeepNetwork):
    """View encoders, one shared codebook, view decoders, view classifiers, and their fusion."""

    label_correlation: Tensor
    view_quality: Tensor

    def __init__(
        self,
        dims: Sequence[int],
        label_correlation: Tensor,
        settings: SCSDSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.reducer: Reducer = LOCAL
        size, c = settings.embedding, len(label_correlation)
        hidden = settings.hidden
        self.encoders = nn.ModuleList(
            MLP(d, hidden, size, settings.dropout, generator) for d in dims
        )
        self.input_dropout = Dropout(settings.input_dropout)
        self.classifiers = nn.ModuleList(make_linear(size, c, generator) for _ in dims)
        if settings.quantise:
            self.codebook = SharedCodebook(
                settings.codebook_size,
                settings.code_dim,
                generator,
                settings.codebook_decay,
                settings.codebook_learning,
            )
        if settings.reconstruction:
            self.decoders = nn.ModuleList(
                MLP(size, hidden[::-1], d, settings.dropout, generator) for d in dims
            )
        self.register_buffer("label_correlation", label_correlation)
        self.register_buffer("view_quality", torch.zeros(len(dims)))

    # ------------------------------------------------------------------ training

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        """L = L_c + L_dis + α L_rec + L_vq (Eq. 10), as named terms."""
        shown = batch
        if self.settings.view_dropout > 0:
            shown = batch.hide_views(self.settings.view_dropout, self.choices)
        codes, quantisation = self.encode(shown)
        predictions = [self.classify(v, code) for v, code in enumerate(codes)]
        fused = self.fuse(shown, predictions, self.batch_quality(shown, predictions))
        terms = {"classification": masked_bce(fused, batch.labels, batch.label_mask, self.reducer)}
        if self.settings.self_distillation:
            terms["distillation"] = self.distillation_loss(shown, predictions, fused)
        if self.settings.reconstruction:
            error = self.reconstruction_loss(shown, codes, batch)
            terms["reconstruction"] = self.settings.alpha * error
        if quantisation is not None:
            terms["quantisation"] = quantisation
        return terms

    def encode(self, batch: Batch) -> tuple[list[Tensor], Tensor | None]:
        """ẑ^v of the rows each view holds, (R_v, d_e), and L_vq (Eq. 1, 3)."""
        raw = [
            encoder(self.input_dropout(batch.views[v]), self._norm_weight(batch, v))
            for v, encoder in enumerate(self.encoders)
        ]
        if not self.settings.quantise:
            return raw, None
        weights = [batch.weight(v) for v in range(len(raw))]
        weight = (
            None
            if batch.positions is not None
            else torch.cat([w for w in weights if w is not None])
        )
        quantised = self.codebook(torch.cat(raw), weight)
        return list(quantised.vectors.split([len(z) for z in raw])), quantised.loss

    def classify(self, view: int, code: Tensor) -> Tensor:
        """P^v = σ(F^v(ẑ^v))."""
        return torch.sigmoid(self.classifiers[view](code))

    def distillation_loss(self, batch: Batch, predictions: list[Tensor], fused: Tensor) -> Tensor:
        """L_dis (Eq. 9): every view learns from the fused teacher and from the observed labels.

        As released: the teacher term is summed over labels, the supervised term averaged, and the
        views are added up. The balance of the two depends on it.
        """
        share = self.settings.distill_weight
        total = fused.new_zeros(())
        for v, student in enumerate(predictions):
            rows = batch.weight(v)
            rows = student.new_ones(len(student)) if rows is None else rows
            known = batch.pick(v, batch.label_mask) * rows.unsqueeze(1)
            cells = bce_cells(student, batch.pick(v, batch.labels))
            total = total + (1 - share) * weighted_mean(cells, known, self.reducer, 1e-9)
            if self.settings.teacher:
                teacher = teacher_bce_rows(student, batch.pick(v, fused))
                total = total + share * weighted_mean(teacher, rows, self.reducer, 1e-9)
        return total

    def reconstruction_loss(self, shown: Batch, codes: list[Tensor], batch: Batch) -> Tensor:
        """L_rec (Eq. 2): every observed view from the code of every view shown to the encoders.

        As released: per feature mean, and per sample divided by its number of views.
        """
        stacked = stack_views(shown, codes)
        rows = self.reducer.sum(stacked.new_full((), len(batch)))
        share = 1.0 / (shown.observed.sum(dim=1).clamp(min=1) * rows)
        total = stacked.new_zeros(())
        for j in range(len(codes)):
            sources = stacked if self.settings.cross_view else stacked[j : j + 1]
            seen = shown.observed.T if self.settings.cross_view else shown.observed.T[j : j + 1]
            total = total + self._decoding_error(
                batch, j, sources, seen & batch.observed[:, j], share
            )
        return self.reducer.sum(total)

    def _decoding_error(
        self, batch: Batch, target: int, sources: Tensor, pairs: Tensor, share: Tensor
    ) -> Tensor:
        """Σ over pairs (source view, sample) of share · mean_k (x̂ − x)².

        Shape: sources (s, B, d_e), pairs (s, B) bool, share (B,).
        """
        decoder, x = self.decoders[target], batch.views[target]
        decoded: Tensor
        if batch.positions is None:
            counted = pairs.to(sources.dtype)
            if self.settings.norm_rows == "all":
                decoded = decoder(sources)
            else:
                flat: Tensor = decoder(sources.flatten(0, 1), counted.flatten())
                decoded = flat.unflatten(0, pairs.shape)
            return ((decoded - x).square().mean(dim=-1) * counted * share).sum()
        source, sample = torch.nonzero(pairs, as_tuple=True)
        held = torch.zeros(len(batch), dtype=torch.long, device=x.device)
        held[batch.positions[target]] = torch.arange(len(x), device=x.device)
        decoded = decoder(sources[source, sample])
        error = (decoded - x[held[sample]]).square().mean(dim=-1)
        return (error * share[sample]).sum()

    # ------------------------------------------------------------------ fusion

    def batch_quality(self, batch: Batch, predictions: Sequence[Tensor]) -> Tensor:
        """q_v of this batch (Eq. 5-6)."""
        if self.settings.fusion == "mean":
            return torch.zeros_like(self.view_quality)
        grams = [self.reducer.sum(gram) for gram in self._grams(batch, predictions)]
        present = self.reducer.sum(batch.observed.sum(dim=0)) > 0
        return view_quality(grams, present, self.label_correlation)

    def fuse(self, batch: Batch, predictions: Sequence[Tensor], quality: Tensor) -> Tensor:
        """P = Σ_v w^v P^v (Eq. 7), (B, c)."""
        weights = fusion_weights(quality, batch.observed, self.settings.temperature)
        stacked = stack_views(batch, predictions)
        return (weights.T.unsqueeze(-1) * stacked).sum(dim=0).clamp(0.0, 1.0)

    def _grams(self, batch: Batch, predictions: Sequence[Tensor]) -> list[Tensor]:
        """P^vᵀP^v over the rows that have view v."""
        grams = []
        for v, prediction in enumerate(predictions):
            weight = batch.weight(v)
            rows = prediction if weight is None else prediction * weight.unsqueeze(1)
            grams.append(rows.T @ rows)
        return grams

    def _norm_weight(self, batch: Batch, view: int) -> Tensor | None:
        return None if self.settings.norm_rows == "all" else batch.weight(view)

    # ------------------------------------------------------------------ evaluation

    def predict_batch(self, batch: Batch) -> Tensor:
        """Fused probabilities, by the frozen view qualities or this batch's own."""
        codes, _ = self.encode(batch)
        predictions = [self.classify(v, code) for v, code in enumerate(codes)]
        frozen = self.settings.fusion_statistics == "train"
        quality = self.view_quality if frozen else self.batch_quality(batch, predictions)
        return self.fuse(batch, predictions, quality)

    @torch.no_grad()
    def freeze_quality(self, source: BatchSource) -> None:
        """Set the view qualities to those over all training rows, so that prediction is pure."""
        if self.settings.fusion == "mean":
            return
        grams: list[Tensor] = []
        present = torch.zeros_like(self.view_quality)
        for batch in source.in_order(_QUALITY_ROWS):
            codes, _ = self.encode(batch)
            new = self._grams(batch, [self.classify(v, code) for v, code in enumerate(codes)])
            grams = [a + b for a, b in zip(grams, new, strict=True)] if grams else new
            present += batch.observed.sum(dim=0)
        totals = [self.reducer.sum(gram) for gram in grams]
        quality = view_quality(totals, self.reducer.sum(present) > 0, self.label_correlation)
        self.view_quality.copy_(quality)

    def begin_epoch(self) -> None:
        """Start counting which codes are used."""
        if self.settings.quantise:
            self.codebook.reset_usage()

    def finish_epoch(self, source: BatchSource) -> None:
        """Refresh the frozen qualities, which validation uses."""
        if self.settings.fusion_statistics == "train":
            self.freeze_quality(source)

    def epoch_facts(self) -> dict[str, float]:
        """Share of the codebook used in this epoch."""
        return {"codebook_use": float(self.codebook.usage())} if self.settings.quantise else {}
