"""The network of SCSD and its loss, equation by equation.

Letters as in the paper: view v of m, x^v features, z^v code, ẑ^v quantised code, P^v prediction of
a view, P fused prediction, W observed views, G observed labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from viewgap.data.labels import Labels
from viewgap.methods.scsd.label_blocks import BlockLosses, LossSums, sum_over_labels
from viewgap.methods.scsd.settings import SCSDSettings
from viewgap.nn.codebook import Quantised, SharedCodebook
from viewgap.nn.dropout import Dropout
from viewgap.nn.fusion import (
    LABEL_EPS,
    correlation,
    fusion_weights,
    gram_quality,
    label_correlation,
    view_quality,
)
from viewgap.nn.gather import gather_rows
from viewgap.nn.kernels import kernels_for
from viewgap.nn.label_classifiers import LabelClassifier, make_classifier
from viewgap.nn.linear import Linear
from viewgap.nn.losses import (
    asymmetric_entries,
    bce_entries,
    squared_error,
    teacher_bce_rows,
    teacher_kl_rows,
)
from viewgap.nn.mlp import MLP
from viewgap.nn.norm import BlockNorm
from viewgap.nn.reduce import LOCAL, Reducer, mean_of_sums, weighted_mean
from viewgap.nn.streams import run_on_streams
from viewgap.training.batches.batch import Batch, Target
from viewgap.training.batches.sampled import Layout
from viewgap.training.batches.source import BatchSource
from viewgap.training.network import RowwiseNetwork

_QUALITY_ROWS = 512


class SCSDNetwork(RowwiseNetwork):
    """View encoders, one shared codebook, view decoders, view classifiers, and their fusion.

    Of a row of a view the answer needs nothing but its prediction P^v: in the words of
    `RowwiseNetwork`, that is its code.
    """

    compiles_ahead = True
    shares_batches = True

    label_correlation: Tensor
    compared_labels: Tensor
    view_quality: Tensor

    def __init__(
        self,
        dims: Sequence[int],
        n_labels: int,
        settings: SCSDSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.settings, self.norm_rows, self.n_views = settings, settings.norm_rows, len(dims)
        self.reducer: Reducer = LOCAL
        size, hidden = settings.embedding, settings.hidden
        encoders = [MLP(d, hidden, size, settings.dropout, generator, BlockNorm) for d in dims]
        self.encoders = cast("Sequence[MLP]", nn.ModuleList(encoders))
        self.input_dropout = Dropout(settings.input_dropout)
        classifiers = [
            make_classifier(settings.classifier, size, n_labels, generator) for _ in dims
        ]
        self.classifiers = cast("Sequence[LabelClassifier]", nn.ModuleList(classifiers))
        if settings.quantise:
            self.codebook = SharedCodebook(
                settings.codebook_size,
                settings.code_dim,
                generator,
                settings.codebook_decay,
                settings.codebook_learning,
                settings.code_length,
                settings.quantisation_reduction,
            )
        if settings.reconstruction:
            back = hidden[::-1] if settings.decoder == "mirrored" else ()
            decoders = [MLP(size, back, d, settings.dropout, generator, BlockNorm) for d in dims]
            self.decoders = cast("Sequence[MLP]", nn.ModuleList(decoders))
        self.n_labels, compared = n_labels, settings.correlation_labels
        self._compares_some = settings.fusion != "mean" and 0 < compared < n_labels
        if self._compares_some:
            self.register_buffer("compared_labels", torch.arange(compared))
            self.register_buffer("label_correlation", torch.zeros(compared, compared))
        else:
            width = 0 if settings.fusion == "mean" else n_labels
            self.register_buffer("label_correlation", torch.zeros(n_labels, width))
        self.register_buffer("view_quality", torch.zeros(len(dims)))

    def prepare(self, labels: Labels) -> None:
        """Keep Ŝ of the training labels (Eq. 4), and what the classifiers need of them."""
        diagonal = self.settings.correlation_diagonal
        if self._compares_some:
            chosen = np.argsort(-labels.positive_counts(), kind="stable")[
                : len(self.compared_labels)
            ]
            self.compared_labels.copy_(torch.from_numpy(chosen))
            together = torch.from_numpy(labels.co_occurrences(chosen))
            self.label_correlation.copy_(correlation(together, LABEL_EPS, diagonal))
        elif self.settings.fusion != "mean":
            positives = torch.from_numpy(labels.values.astype(np.float32))
            self.label_correlation.copy_(label_correlation(positives, diagonal))
        for layer in self.classifiers:
            if not isinstance(layer, Linear):
                layer.prepare(torch.from_numpy(labels.values.astype(np.float32)))

    def check_compared_labels(self) -> None:
        """ValueError for numbers of labels, from a file, that there are not."""
        if self._compares_some:
            numbers = self.compared_labels
            if bool(((numbers < 0) | (numbers >= self.n_labels)).any()):
                raise ValueError("the numbers of the compared labels must be below their count")

    # ------------------------------------------------------------------ training

    @property
    def layout(self) -> Layout:
        """Only observed rows and pairs are computed.

        Where statistics take in the missing rows, these are all alike and folded into one, unless
        dropout makes them different.
        """
        settings = self.settings
        pairs = "none"
        if settings.reconstruction:
            crossed = "sampled" if settings.pairs == "sampled" else "cross"
            pairs = crossed if settings.cross_view else "own"
        unlike = settings.norm_rows == "all" and (settings.dropout or settings.input_dropout)
        return Layout(
            "dense" if unlike else "packed", settings.norm_rows, pairs, settings.view_dropout
        )

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        """L = L_c + L_dis + α L_rec + L_vq (Eq. 10), as named terms."""
        codes, quantised = self.encode_batch(batch)
        # All that follows needs the codes and nothing of each other.
        pieces = [partial(self.prediction_losses, batch, codes)]
        uses = [[codes]]
        for j, target in enumerate(batch.targets):
            pieces.append(partial(self._decode_batch, batch, j, codes))
            uses.append([codes, target.table, target.rows])
        if quantised is not None:
            pieces.append(partial(self.codebook.learn, quantised))
            uses.append([quantised.indices, quantised.segments, quantised.weight])
        results = run_on_streams(pieces, uses)
        terms = {"classification": results[0][0]}
        if self.settings.self_distillation:
            terms["distillation"] = results[0][1]
        if batch.targets:
            errors = torch.stack(results[1 : 1 + len(batch.targets)]).sum()
            scale = self.settings.alpha / self._reconstructed(batch)
            terms["reconstruction"] = scale * self.batch_reducer.sum(errors)
        if quantised is not None:
            terms["quantisation"] = quantised.loss
        return terms

    def raw_codes(self, batch: Batch) -> Tensor:
        """z of all rows of all views, before they are quantised, (ΣR, d_e)."""
        pieces = [partial(self._raw_codes_of, batch, v) for v in range(len(self.encoders))]
        return torch.cat(run_on_streams(pieces, [[x] for x in batch.views.tables]))

    def encode_batch(self, batch: Batch) -> tuple[Tensor, Quantised | None]:
        """ẑ of all rows of all views, (ΣR, d_e), and all that the codebook knows (Eq. 1, 3)."""
        raw = self.raw_codes(batch)
        if not self.settings.quantise:
            return raw, None
        quantised: Quantised = self.codebook(raw, batch.row_weight, batch.gather_rows)
        return quantised.vectors, quantised

    def _raw_codes_of(self, batch: Batch, view: int) -> Tensor:
        norm = batch.norm_weight(view, self.settings.norm_rows)
        with batch.draws_of_view(view):
            code: Tensor = self.encoders[view](self.input_dropout(batch.views[view]), norm)
        return code

    def classify(self, batch: Batch, codes: Tensor) -> Tensor:
        """P^v = σ(F^v(ẑ^v)) of every view, (m, B, c); zero where the view is missing."""
        linear = [layer for layer in self.classifiers if isinstance(layer, Linear)]
        stacked = batch.stack(codes)
        if linear:
            return self._classify(batch, stacked, linear)
        pairs = zip(self.classifiers, stacked, strict=True)
        scores = torch.stack([layer(own) for layer, own in pairs])
        return torch.sigmoid(scores) * batch.observed.T.unsqueeze(-1)

    def _classify(
        self,
        batch: Batch,
        stacked: Tensor,
        linear: Sequence[Linear],
        labels: Tensor | None = None,
    ) -> Tensor:
        """P^v of linear classifiers, for all labels or those with these numbers."""
        weights: list[Tensor] = [layer.weight for layer in linear]
        biases: list[Tensor] = [layer.bias for layer in linear]
        if labels is not None:
            weights = [own[labels] for own in weights]
            biases = [own[labels] for own in biases]
        weight, bias = torch.stack(weights), torch.stack(biases)
        scores = torch.baddbmm(bias.unsqueeze(1), stacked, weight.transpose(1, 2))
        return torch.sigmoid(scores) * batch.observed.T.unsqueeze(-1)

    def prediction_losses(self, batch: Batch, codes: Tensor) -> Tensor:
        """L_c (Eq. 8) and, if there is one, L_dis."""
        is_linear = self.settings.classifier == "linear"
        if is_linear and 0 < self.settings.label_block < self.n_labels:
            return self._losses_by_block(batch, codes)
        predictions = self.classify(batch, codes)
        quality = self.batch_quality(batch, predictions)
        as_kernels = self.batch_reducer is LOCAL and self.settings.has_released_losses
        kernels = kernels_for(predictions, "fusion") if as_kernels else None
        if kernels is not None and predictions.shape[2] <= kernels.MOST_LABELS:
            settings = self.settings
            numbers = (settings.temperature, settings.distill_weight, settings.teacher)
            both: Tensor = kernels.PredictionLosses.apply(
                predictions, quality, batch.observed, batch.labels, batch.label_mask, *numbers
            )
            return both
        fused = self.fuse(predictions, batch.observed, quality)
        entries = self.label_entries(fused, batch.labels)
        losses = [weighted_mean(entries, batch.label_mask, self.batch_reducer)]
        if self.settings.self_distillation:
            losses.append(self.distillation_loss(batch, predictions, fused))
        return torch.stack(losses)

    def _losses_by_block(self, batch: Batch, codes: Tensor) -> Tensor:
        """The same, with the predictions of a block of labels in memory at a time."""
        settings, stacked = self.settings, batch.stack(codes)
        linear = cast("Sequence[Linear]", self.classifiers)
        quality = torch.zeros_like(self.view_quality)
        if settings.fusion != "mean":
            chosen = self.compared_labels if self._compares_some else None
            quality = self._quality_of(batch, self._classify(batch, stacked, linear, chosen))
        weights = fusion_weights(quality, batch.observed, settings.temperature)
        losses = BlockLosses(
            self.label_entries,
            self._taught if settings.teacher else None,
            settings.self_distillation,
        )
        size = settings.label_block
        sums = sum_over_labels(
            stacked,
            linear,
            weights,
            batch.observed,
            batch.labels,
            batch.label_mask,
            losses,
            size,
        )
        found = [mean_of_sums(sums.fused.sum(), sums.count.sum(), self.batch_reducer)]
        if settings.self_distillation:
            found.append(self._distillation_of(batch, sums))
        return torch.stack(found)

    def _distillation_of(self, batch: Batch, sums: LossSums) -> Tensor:
        """`distillation_loss` of sums over the labels."""
        settings, rows = self.settings, batch.observed.T.to(sums.views.dtype)
        if settings.distillation_average == "pairs":
            known = self._over_views(sums.views / sums.count.clamp(min=1.0), rows)
        else:
            of_view = [(rows * own).sum(dim=1) for own in (sums.views, sums.count)]
            known = mean_of_sums(of_view[0], of_view[1], self.batch_reducer, 1e-9).sum()
        total = (1 - settings.distill_weight) * known
        if settings.teacher:
            total = total + settings.distill_weight * self._over_views(sums.taught, rows)
        return total

    def _taught(self, student: Tensor, teacher: Tensor) -> Tensor:
        """What every row of a view is taught, added up over the labels (Eq. 9)."""
        apart = teacher_kl_rows if self.settings.distillation == "kl" else teacher_bce_rows
        return apart(student, teacher)

    def distillation_loss(self, batch: Batch, predictions: Tensor, fused: Tensor) -> Tensor:
        """L_dis (Eq. 9): every view learns from the fused teacher and from the observed labels.

        The teacher term is summed over labels, the supervised term averaged: the balance of the two
        depends on it. As released: the views are added up.
        """
        share, by_pair = self.settings.distill_weight, self.settings.distillation_average == "pairs"
        rows = batch.observed.T.to(fused.dtype)
        entries = self.label_entries(predictions, batch.labels)
        if by_pair:
            known = weighted_mean(entries, batch.label_mask, dim=(2,))
            total = (1 - share) * self._over_views(known, rows)
        else:
            mask = batch.label_mask * rows.unsqueeze(-1)
            total = (1 - share) * self._over_views(entries, mask)
        if self.settings.teacher:
            taught = self._taught(predictions, fused.expand_as(predictions))
            total = total + share * self._over_views(taught, rows)
        return total

    def _over_views(self, values: Tensor, weight: Tensor) -> Tensor:
        """Weighted mean over all pairs of view and sample, or the sum of the views' means.

        Shape: both (m, B) or (m, B, c) -> ().
        """
        if self.settings.distillation_average == "pairs":
            return weighted_mean(values, weight, self.batch_reducer)
        of_view = tuple(range(1, values.ndim))
        return weighted_mean(values, weight, self.batch_reducer, 1e-9, dim=of_view).sum()

    def label_entries(self, probability: Tensor, label: Tensor) -> Tensor:
        """Loss of every label entry, observed or not (Eq. 8)."""
        if self.settings.label_loss == "asymmetric":
            return asymmetric_entries(probability, label)
        return bce_entries(probability, label, self.settings.log_epsilon)

    def _decode_batch(self, batch: Batch, view: int, codes: Tensor) -> Tensor:
        with batch.draws_of_pairs(view):
            return self.decoding_error(view, batch.targets[view], codes)

    def decoding_error(self, view: int, target: Target, codes: Tensor) -> Tensor:
        """One view's part of L_rec (Eq. 2): Σ over pairs of share · mean_k (x̂ − x)².

        Every observed view is decoded from the code of every view shown to the encoders. As
        released: per feature mean, and per sample divided by its number of views.
        """
        decoder, settings = self.decoders[view], self.settings
        wanted = gather_rows(codes, target.source, target.back, decoder.matmul_dtype)
        hidden = decoder.hidden(wanted, target.norm_weight)
        share = target.weight if settings.reconstruction_average == "samples" else _pairs(target)
        error = squared_error(decoder.output, hidden, target.table, target.rows, share)
        summed = settings.reconstruction_reduction == "sum"
        return error * target.table.shape[1] if summed else error

    def _reconstructed(self, batch: Batch) -> Tensor:
        """What the errors are divided by: the number of samples, or of pairs (Eq. 2)."""
        if self.settings.reconstruction_average == "samples":
            return self.batch_reducer.sum(batch.n_samples)
        pairs = torch.stack([_pairs(target).sum() for target in batch.targets]).sum()
        return self.batch_reducer.sum(pairs).clamp(min=1.0)

    @property
    def batch_reducer(self) -> Reducer:
        """Of the processes that share the batch: in evaluation every process has its own."""
        return self.reducer if self.training else LOCAL

    # ------------------------------------------------------------------ fusion

    def batch_quality(self, batch: Batch, predictions: Tensor) -> Tensor:
        """q_v of this batch (Eq. 5-6)."""
        if self.settings.fusion == "mean":
            return torch.zeros_like(self.view_quality)
        return self._quality_of(batch, self._compared(predictions))

    def _compared(self, predictions: Tensor) -> Tensor:
        """Predictions (..., c) for the labels that correlations compare."""
        return predictions[..., self.compared_labels] if self._compares_some else predictions

    def _quality_of(self, batch: Batch, predictions: Tensor) -> Tensor:
        """q_v of predictions for the labels that are compared."""
        present = self.batch_reducer.sum(batch.observed.sum(dim=0)) > 0
        diagonal = self.settings.correlation_diagonal
        return view_quality(
            predictions, present, self.label_correlation, self.batch_reducer, diagonal
        )

    def fuse(self, predictions: Tensor, observed: Tensor, quality: Tensor) -> Tensor:
        """P = Σ_v w^v P^v (Eq. 7), (B, c)."""
        weights = fusion_weights(quality, observed, self.settings.temperature)
        return (weights.T.unsqueeze(-1) * predictions).sum(dim=0).clamp(0.0, 1.0)

    # ------------------------------------------------------------------ evaluation

    def predict_views_of(self, batch: Batch) -> Tensor:
        """P^v of every view, (m, B, c), by the forward pass of training."""
        return self.classify(batch, self.encode_batch(batch)[0])

    def predict_batch(self, batch: Batch) -> Tensor:
        """Fused probabilities, by the frozen view qualities or this batch's own."""
        predictions = self.predict_views_of(batch)
        if self.settings.pooling == "network":
            return self.answer(predictions, batch.observed)
        return self.fuse(predictions, batch.observed, self.batch_quality(batch, predictions))

    def latent(self, view: int, x: Tensor, n_rows: int) -> Tensor:
        """ẑ^v of rows of one view, (R, d_e); zero after `n_rows`, in rows that fill up a block."""
        raw: Tensor = self.encoders[view](x)
        if not self.settings.quantise:
            return raw
        quantised: Tensor = self.codebook.quantise(raw, n_rows)
        return quantised

    def code_indices(self, view: int, x: Tensor, n_rows: int) -> Tensor:
        """Indices of the codes of the first `n_rows` rows of one view, (n_rows, g)."""
        raw: Tensor = self.encoders[view](x)
        indices: Tensor = self.codebook.nearest(raw[:n_rows])
        return indices

    def decode(self, view: int, target: int, x: Tensor, n_rows: int) -> Tensor:
        """Rows of view `target` decoded from rows of another view, (R, d)."""
        decoded: Tensor = self.decoders[target](self.latent(view, x, n_rows))
        return decoded

    @property
    def code_size(self) -> int:
        """One number per label."""
        return self.n_labels

    @property
    def encoder_size(self) -> int:
        """Weights of the encoders."""
        layers = [layer for mlp in self.encoders for layer in (*mlp.linears, mlp.output)]
        return sum(layer.weight.numel() for layer in layers)

    @property
    def elementwise_answer(self) -> bool:
        """See `RowwiseNetwork`."""
        return True

    def encode_view(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        """P^v = σ(F^v(ẑ^v)) of rows of one view."""
        return self.encode_rows(view, x, len(x))

    def encode_rows(self, view: int, x: Tensor, n_rows: int) -> Tensor:
        """See `RowwiseNetwork`: rows that fill up a block are not looked up in the codebook."""
        return torch.sigmoid(self.classifiers[view](self.latent(view, x, n_rows)))

    def predict_view(self, view: int, codes: Tensor) -> Tensor:
        """The code is the prediction."""
        return codes

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        """P by the frozen view qualities."""
        return self.fuse(codes, observed, self.view_quality)

    def view_weights(self, observed: Tensor) -> Tensor:
        """w^v by the frozen view qualities, (B, m)."""
        return fusion_weights(self.view_quality, observed, self.settings.temperature)

    # ------------------------------------------------------------------ epochs

    @torch.no_grad()
    def freeze_quality(self, source: BatchSource) -> None:
        """Set the view qualities to those over all training rows, so that prediction is pure."""
        if self.settings.fusion == "mean":
            return
        grams = [torch.zeros_like(self.label_correlation) for _ in self.encoders]
        present = torch.zeros_like(self.view_quality)
        for batch in source.in_order(_QUALITY_ROWS, Layout("packed"), own=True):
            predictions = self._compared(self.predict_views_of(batch))
            for gram, rows in zip(grams, predictions, strict=True):
                gram.addmm_(rows.T, rows)
            present += batch.observed.sum(dim=0)
        totals = [self.reducer.sum(gram) for gram in grams]
        present, diagonal = self.reducer.sum(present) > 0, self.settings.correlation_diagonal
        self.view_quality.copy_(gram_quality(totals, present, self.label_correlation, diagonal))

    def begin_epoch(self) -> None:
        """Start counting which codes are used."""
        if self.settings.quantise:
            self.codebook.reset_usage()

    @property
    def work(self) -> int:
        """Parameters, and the label correlations of every view."""
        return self.size + len(self.encoders) * self.label_correlation.numel()

    @property
    def finishes_epochs(self) -> bool:
        """Whether predictions use frozen qualities."""
        return self.settings.pooling == "network" and self.settings.fusion != "mean"

    def finish_epoch(self, source: BatchSource) -> None:
        """Refresh the frozen qualities, which validation uses."""
        self.freeze_quality(source)

    def epoch_metrics(self) -> dict[str, float]:
        """Share of the codebook used in this epoch."""
        return {"codebook_use": float(self.codebook.usage())} if self.settings.quantise else {}


def _pairs(target: Target) -> Tensor:
    """1 for the pairs of a code and a view to decode, 0 for what fills up; as `target.weight`."""
    return (target.weight > 0).to(target.weight.dtype)
