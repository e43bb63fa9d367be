"""SCSD in one file of plain PyTorch: a reference to read, and to compare the library with.

Dense rows, loops over views, one decoder call per pair of views, the whole matrix of similarities,
AdamW as it comes: no trick, and no waste either. `Eq.` are the equations of the paper; where the
released code deviates from the paper, this follows the code, as the published figures do.

Letters as in the paper: n samples, m views, c labels; x^v features of view v, z^v its code, P^v its
prediction, P the fused prediction, W observed views (n, m), G observed labels (n, c).

The first part is the published model: `SCSDNetwork` with its loss, term by term. `Committee` and
`LogOddsPooling` are what the default profile of the library adds. `Training` and `fit` train.
Weights have the names of the library's, so that both can be given the same ones:
`tests/benchmarks/test_scsd_reference.py` shows that losses, gradients, statistics and predictions
are then equal. `python -m benchmarks` measures how much faster the library computes them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Settings:
    """The settings published for Corel5k. The library's `SCSDSettings` has the same names."""

    hidden: tuple[int, ...] = (2048, 1024, 512)  # of encoders
    decoder: str = "mirrored"  # hidden layers of decoders: these in reverse, or none ("linear")
    embedding: int = 512  # d_e, of a view's code
    codebook_size: int = 2048  # k
    code_dim: int = 4  # d_c; a code is cut into d_e / d_c segments
    codebook_decay: float = 0.99
    alpha: float = 0.1  # weight of the reconstruction (Eq. 10)
    distill_weight: float = 0.1  # lambda (Eq. 9)
    temperature: float = 5.0  # tau (Eq. 6)
    fusion: str = "label_correlation"  # or "mean"
    pooling: str = "batch"  # view qualities in prediction: of the batch, or frozen
    norm_rows: str = "all"  # rows of batch normalisation: missing ones as zeros, or "observed"
    dropout: float = 0.0
    input_dropout: float = 0.0
    view_dropout: float = 0.0
    learning_rate: float = 1e-3
    weight_decay: float = 1e-3
    max_grad_norm: float = 0.01
    batch_size: int = 128
    ema_decay: float = 0.0  # of averaged weights; 0: none
    n_networks: int = 1


# ------------------------------------------------------------------ layers


class Norm(nn.Module):
    """Batch normalisation of several groups of rows.

    Without weights each group by itself and by all its rows, in order (the released code); with
    weights all groups together, by the rows of weight 1.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, groups: list[Tensor], weights: list[Tensor] | None) -> list[Tensor]:
        if weights is None or not self.training:
            mean, variance = self.running_mean, self.running_var
            return [
                F.batch_norm(x, mean, variance, self.weight, self.bias, self.training)
                for x in groups
            ]
        rows, weight = torch.cat(groups), torch.cat(weights).unsqueeze(1)
        count = weight.sum().clamp(min=1)
        mean = (weight * rows).sum(dim=0) / count
        variance = (weight * (rows - mean) ** 2).sum(dim=0) / count
        with torch.no_grad():
            self.running_mean.lerp_(mean, 0.1)
            self.running_var.lerp_(variance * count / (count - 1), 0.1)
        scale = self.weight / torch.sqrt(variance + 1e-5)
        return [(x - mean) * scale + self.bias for x in groups]


class MLP(nn.Module):
    """Hidden layers of Linear, Norm, GELU, Dropout, and a Linear at the end."""

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, dropout: float) -> None:
        super().__init__()
        sizes = [inputs, *hidden]
        pairs = zip(sizes, hidden, strict=False)
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        self.norms = nn.ModuleList(Norm(size) for size in hidden)
        self.output = nn.Linear(sizes[-1], outputs)
        self.dropout = dropout

    def forward(self, groups: list[Tensor], weights: list[Tensor] | None) -> list[Tensor]:
        for linear, norm in zip(self.linears, self.norms, strict=True):
            groups = norm([linear(x) for x in groups], weights)
            groups = [F.dropout(F.gelu(x), self.dropout, self.training) for x in groups]
        return [self.output(x) for x in groups]


# ------------------------------------------------------------------ the published model


class Codebook(nn.Module):
    """k codes of d_c numbers, each of length 1."""

    codes: Tensor

    def __init__(self, size: int, code_dim: int) -> None:
        super().__init__()
        self.register_buffer("codes", torch.empty(size, code_dim))


class SCSDNetwork(nn.Module):
    """Encoders, one codebook shared by all views, classifiers, decoders, and their loss."""

    label_correlation: Tensor
    view_quality: Tensor

    def __init__(self, dims: Sequence[int], n_labels: int, settings: Settings) -> None:
        super().__init__()
        s, size = settings, settings.embedding
        self.settings = s
        self.encoders = nn.ModuleList(MLP(d, s.hidden, size, s.dropout) for d in dims)
        back = s.hidden[::-1] if s.decoder == "mirrored" else ()
        self.decoders = nn.ModuleList(MLP(size, back, d, s.dropout) for d in dims)
        self.classifiers = nn.ModuleList(nn.Linear(size, n_labels) for _ in dims)
        self.codebook = Codebook(s.codebook_size, s.code_dim)
        compared = 0 if s.fusion == "mean" else n_labels
        self.register_buffer("label_correlation", torch.empty(n_labels, compared))
        self.register_buffer("view_quality", torch.zeros(len(dims)))

    def loss_terms(
        self, views: list[Tensor], observed: Tensor, labels: Tensor, label_mask: Tensor
    ) -> dict[str, Tensor]:
        """L = L_c + L_dis + α L_rec + L_vq (Eq. 10), as named terms.

        Shape: views[v] (B, d_v), zero where missing; observed (B, m) bool; labels (B, c), zero
        where not observed; label_mask (B, c), 1 where observed.
        """
        s = self.settings
        visible = hide_views(observed, s.view_dropout) if s.view_dropout > 0 else observed
        codes, quantisation = self.quantise(self.encode(views, visible), visible)
        predictions = [torch.sigmoid(f(z)) for f, z in zip(self.classifiers, codes, strict=True)]
        fused = self.fuse(predictions, visible, self.quality(predictions, visible))
        return {
            "classification": (label_mask * bce(fused, labels)).sum() / label_mask.sum(),
            "distillation": self.distillation(predictions, fused, visible, labels, label_mask),
            "reconstruction": s.alpha * self.reconstruction(views, codes, visible, observed),
            "quantisation": quantisation,
        }

    def encode(self, views: list[Tensor], visible: Tensor) -> list[Tensor]:
        """z^v = E^v(x^v), m times (B, d_e)."""
        raw = []
        for v, x in enumerate(views):
            weights = [visible[:, v].to(x.dtype)] if self.settings.norm_rows == "observed" else None
            x = F.dropout(x, self.settings.input_dropout, self.training)
            raw += self.encoders[v]([x], weights)
        return raw

    def quantise(self, raw: list[Tensor], visible: Tensor) -> tuple[list[Tensor], Tensor]:
        """Every segment of an observed row becomes its nearest code (Eq. 1); L_vq (Eq. 3).

        The gradient passes straight through to the segment. Only the commitment part of Eq. 3 is
        in the loss: the codes themselves move by `move_codes`.
        """
        kept = torch.cat([z[visible[:, v]] for v, z in enumerate(raw)])
        segments = F.normalize(kept.reshape(-1, self.settings.code_dim), dim=1)
        codes = F.normalize(self.codebook.codes, dim=1)
        nearest = (segments.detach() @ codes.T).argmax(dim=1)
        chosen = codes[nearest]
        if self.training:
            self.move_codes(segments.detach(), nearest)
        passed = (segments + (chosen - segments).detach()).reshape(kept.shape)
        result = []
        for v, part in enumerate(passed.split(visible.sum(dim=0).tolist())):
            code = torch.zeros_like(raw[v])
            code[visible[:, v]] = part
            result.append(code)
        return result, ((segments - chosen) ** 2).mean()

    @torch.no_grad()
    def move_codes(self, segments: Tensor, nearest: Tensor) -> None:
        """Every code used moves a little towards the mean of its segments."""
        decay, codes = self.settings.codebook_decay, self.codebook.codes
        one_hot = F.one_hot(nearest, len(codes)).to(segments.dtype)
        towards = F.normalize(one_hot.T @ segments, dim=1)
        moved = F.normalize(decay * codes + (1 - decay) * towards, dim=1)
        codes.copy_(torch.where(one_hot.sum(dim=0).unsqueeze(1) > 0, moved, codes))

    def quality(self, predictions: list[Tensor], visible: Tensor) -> Tensor:
        """q_v = −‖Ŝ_v − Ŝ‖ (Eq. 4-6) over the rows that have the view; equal for a plain mean."""
        if self.settings.fusion == "mean":
            return torch.zeros_like(self.view_quality)
        result = []
        for v, prediction in enumerate(predictions):
            rows = prediction[visible[:, v]]
            gap = torch.linalg.matrix_norm(correlation(rows) - self.label_correlation)
            result.append(-gap if len(rows) else gap.new_full((), -1e9))
        return torch.stack(result)

    def fuse(self, predictions: list[Tensor], visible: Tensor, quality: Tensor) -> Tensor:
        """P = Σ_v w^v P^v (Eq. 7)."""
        logits = (quality / self.settings.temperature).expand(visible.shape)
        weights = torch.softmax(logits.masked_fill(~visible, -torch.inf), dim=1)
        parts = [weights[:, v, None] * p for v, p in enumerate(predictions)]
        return torch.stack(parts).sum(dim=0).clamp(0.0, 1.0)

    def distillation(
        self,
        predictions: list[Tensor],
        fused: Tensor,
        visible: Tensor,
        labels: Tensor,
        label_mask: Tensor,
    ) -> Tensor:
        """Eq. 9; the teacher's part summed over labels, the labels' part averaged."""
        share, total = self.settings.distill_weight, fused.new_zeros(())
        for v, student in enumerate(predictions):
            rows = visible[:, v].to(student.dtype)
            teacher = F.binary_cross_entropy(student, fused.detach(), reduction="none").sum(dim=1)
            entries = label_mask * rows.unsqueeze(1)
            total = total + share * (rows * teacher).sum() / (rows.sum() + 1e-9)
            total = total + (1 - share) * (entries * bce(student, labels)).sum() / (
                entries.sum() + 1e-9
            )
        return total

    def reconstruction(
        self, views: list[Tensor], codes: list[Tensor], visible: Tensor, observed: Tensor
    ) -> Tensor:
        """Eq. 2: every observed view from the code of every view visible."""
        share = 1.0 / (visible.to(views[0].dtype).sum(dim=1).clamp(min=1) * len(visible))
        total = share.new_zeros(())
        for j, x in enumerate(views):
            pairs = [(visible[:, v] & observed[:, j]).to(x.dtype) for v in range(len(views))]
            if self.settings.norm_rows == "observed":
                decoded = self.decoders[j](codes, pairs)
            else:
                decoded = [self.decoders[j]([code], None)[0] for code in codes]
            for guess, pair in zip(decoded, pairs, strict=True):
                total = total + (((guess - x) ** 2).mean(dim=1) * pair * share).sum()
        return total

    def predict(self, views: list[Tensor], observed: Tensor) -> Tensor:
        """Fused probabilities (B, c), in evaluation mode.

        As released, view qualities come from the batch at hand: a prediction then depends on
        the samples beside it. Frozen qualities do without.
        """
        predictions = self.by_view(views, observed)
        frozen = self.settings.pooling != "batch"
        quality = self.view_quality if frozen else self.quality(predictions, observed)
        return self.fuse(predictions, observed, quality)

    def by_view(self, views: list[Tensor], observed: Tensor) -> list[Tensor]:
        """What each view says of every row, m times (B, c), in evaluation mode."""
        codes, _ = self.quantise(self.encode(views, observed), observed)
        return [torch.sigmoid(f(z)) for f, z in zip(self.classifiers, codes, strict=True)]


# ------------------------------------------------------------------ what the default profile adds


class LogOddsPooling(nn.Module):
    """Log-odds of the views beyond those of the label's frequency, weighted and summed.

    The library fits weights, slope, power and shifts on held-out rows; here they are given.
    """

    weight: Tensor
    slope: Tensor
    power: Tensor
    prior: Tensor
    shift: Tensor

    def __init__(self, n_views: int, n_labels: int) -> None:
        super().__init__()
        shapes = {"weight": (n_views,), "slope": (), "power": ()}
        for name, shape in {**shapes, "prior": (n_labels,), "shift": (n_labels,)}.items():
            self.register_buffer(name, torch.ones(shape))

    def forward(self, predictions: list[Tensor], observed: Tensor) -> Tensor:
        evidence = torch.logit(torch.stack(predictions, dim=1), eps=1e-6) - self.prior
        weights = self.weight * observed
        pooled = (weights.unsqueeze(-1) * evidence).sum(dim=1)
        pooled = pooled / weights.sum(dim=1, keepdim=True) ** self.power
        return torch.sigmoid(self.prior + self.shift + self.slope * pooled)


class Committee(nn.Module):
    """Several networks trained on the same batches, and log-odds pooling of their mean.

    In the library's default every network leaves out a fifth of the rows, and so has batches of
    its own; and a view is decoded from one visible view, drawn at random, instead of from all.
    """

    def __init__(self, dims: Sequence[int], n_labels: int, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        count = settings.n_networks
        self.networks = nn.ModuleList(SCSDNetwork(dims, n_labels, settings) for _ in range(count))
        self.pooling = LogOddsPooling(len(dims), n_labels)

    def loss_terms(
        self, views: list[Tensor], observed: Tensor, labels: Tensor, label_mask: Tensor
    ) -> dict[str, Tensor]:
        """The terms of Eq. 10, averaged over the networks."""
        terms = [member.loss_terms(views, observed, labels, label_mask) for member in self.networks]
        return {name: sum(own[name] for own in terms) / len(terms) for name in terms[0]}

    def predict(self, views: list[Tensor], observed: Tensor) -> Tensor:
        """Pooled probabilities (B, c), in evaluation mode."""
        answers = [member.by_view(views, observed) for member in self.networks]
        means = [torch.stack(of_view).mean(dim=0) for of_view in zip(*answers, strict=True)]
        return self.pooling(means, observed)


Model = SCSDNetwork | Committee


# ------------------------------------------------------------------ functions of the loss


def bce(probability: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy of every label entry, with the field's 1e-5 inside the logarithms."""
    positive = label * torch.log(probability + 1e-5)
    return (positive + (1 - label) * torch.log(1 - probability + 1e-5)).abs()


def correlation(rows: Tensor) -> Tensor:
    """Ŝ of predictions (n, c): conditional, without diagonal, symmetrised, rows summing to one."""
    gram = rows.T @ rows
    conditional = gram / (torch.diagonal(gram).unsqueeze(1) + 1e-9)
    conditional = conditional - torch.diag(torch.diagonal(conditional))
    symmetric = (conditional + conditional.T) / 2
    return symmetric / (symmetric.sum(dim=1, keepdim=True) + 1e-9)


def hide_views(observed: Tensor, rate: float) -> Tensor:
    """Hide each observed view with probability `rate`; one always stays."""
    draw = torch.rand(observed.shape, device=observed.device).masked_fill(~observed, -1.0)
    return observed & (draw >= draw.amax(dim=1, keepdim=True).clamp(max=rate))


# ------------------------------------------------------------------ training


def from_weights(
    dims: Sequence[int], n_labels: int, settings: Any, weights: dict[str, Tensor]
) -> Model:
    """The reference with the weights of a library's network of the same settings."""
    first = next(value for value in weights.values() if value.is_floating_point())
    kind = Committee if settings.pooling == "log_odds" else SCSDNetwork
    network = kind(dims, n_labels, settings).to(first.device, first.dtype)
    mine = network.state_dict()
    network.load_state_dict({name: weights[name] for name in mine})
    return network


class Training:
    """One training step after the other, on dense rows that lie on the device."""

    def __init__(
        self, network: Model, views: list[Tensor], observed: Tensor, labels: Tensor
    ) -> None:
        self.network, self.settings = network, network.settings
        self.views, self.observed = views, observed
        self.label_mask = (~labels.isnan()).to(views[0].dtype)
        self.labels = labels.nan_to_num(0.0).to(views[0].dtype)
        s = self.settings
        self.optimiser = torch.optim.AdamW(
            network.parameters(), lr=s.learning_rate, weight_decay=s.weight_decay
        )
        self.averaged = copy.deepcopy(network) if s.ema_decay > 0 else None

    def step(self, rows: Tensor | None = None) -> None:
        """One step of AdamW on these rows, or on a batch drawn at random."""
        if rows is None:
            rows = torch.randperm(len(self.observed))[: self.settings.batch_size]
        rows = rows.to(self.observed.device)
        views = [x[rows] for x in self.views]
        self.network.train()
        self.optimiser.zero_grad()
        terms = self.network.loss_terms(
            views, self.observed[rows], self.labels[rows], self.label_mask[rows]
        )
        torch.stack(list(terms.values())).sum().backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.max_grad_norm)
        self.optimiser.step()
        if self.averaged is not None:
            move(self.averaged, self.network, 1 - self.settings.ema_decay)


@torch.no_grad()
def move(averaged: nn.Module, towards: nn.Module, share: float) -> None:
    """The running average of all weights takes one step."""
    theirs = towards.state_dict()
    for name, mine in averaged.state_dict().items():
        mine.lerp_(theirs[name], share)


@torch.no_grad()
def start_codes(network: SCSDNetwork, views: list[Tensor], observed: Tensor) -> None:
    """The codebook begins as ten rounds of k-means, by cosine, on the segments of a batch."""
    raw, size = network.encode(views, observed), network.settings.code_dim
    kept = torch.cat([z[observed[:, v]] for v, z in enumerate(raw)])
    segments = F.normalize(kept.reshape(-1, size), dim=1)
    k = len(network.codebook.codes)
    codes = segments[torch.randint(len(segments), (k,))]
    for _ in range(10):
        one_hot = F.one_hot((segments @ codes.T).argmax(dim=1), k).to(segments.dtype)
        used = one_hot.sum(dim=0).unsqueeze(1) > 0
        codes = torch.where(used, F.normalize(one_hot.T @ segments, dim=1), codes)
    network.codebook.codes.copy_(codes)


def fit(
    views: list[Tensor], observed: Tensor, labels: Tensor, settings: Settings, epochs: int
) -> SCSDNetwork:
    """Train the published model for some epochs; labels (n, c) with NaN where not observed.

    The library also standardises the views, keeps the weights of the best validation score, and
    stops early.
    """
    network = SCSDNetwork([x.shape[1] for x in views], labels.shape[1], settings)
    if settings.fusion != "mean":
        network.label_correlation.copy_(correlation(labels.nan_to_num(0.0)))
    first = torch.randperm(len(observed))[: settings.batch_size]
    start_codes(network, [x[first] for x in views], observed[first])
    training = Training(network, views, observed, labels)
    for _ in range(epochs):
        for rows in torch.randperm(len(observed)).split(settings.batch_size):
            if len(rows) > 1:  # one row has no variance to normalise by
                training.step(rows)
    return network.eval()
