"""SCSD in the plainest PyTorch: what the library is compared with, in speed and in its numbers.

Dense rows, one decoder call per pair of views, the whole matrix of similarities, a one-hot matrix
for the codebook, loops over views, eager mode, AdamW as it comes. No trick, and no waste either.
Weights have the names of the library's, so that both can be given the same ones.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


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


class Codebook(nn.Module):
    """k codes of d_c numbers."""

    codes: Tensor

    def __init__(self, size: int, code_dim: int) -> None:
        super().__init__()
        self.register_buffer("codes", torch.empty(size, code_dim))


class NaiveSCSD(nn.Module):
    """Encoders, one codebook, classifiers, decoders (Eq. 1-10); `settings`: an `SCSDSettings`."""

    label_correlation: Tensor
    view_quality: Tensor

    def __init__(self, dims: Sequence[int], n_labels: int, settings: Any) -> None:
        super().__init__()
        s, size = settings, settings.embedding
        self.settings = s
        self.encoders = nn.ModuleList(MLP(d, s.hidden, size, s.dropout) for d in dims)
        self.decoders = nn.ModuleList(MLP(size, s.hidden[::-1], d, s.dropout) for d in dims)
        self.classifiers = nn.ModuleList(nn.Linear(size, n_labels) for _ in dims)
        self.codebook = Codebook(s.codebook_size, s.code_dim)
        compared = 0 if s.fusion == "mean" else n_labels
        self.register_buffer("label_correlation", torch.empty(n_labels, compared))
        self.register_buffer("view_quality", torch.zeros(len(dims)))

    def loss_terms(
        self, views: list[Tensor], observed: Tensor, labels: Tensor, known: Tensor
    ) -> dict[str, Tensor]:
        """The terms of Eq. 10. Shape: views[v] (B, d_v), observed (B, m), labels, known (B, c)."""
        s = self.settings
        shown = hide_views(observed, s.view_dropout) if s.view_dropout > 0 else observed
        codes, quantisation = self.quantise(self.encode(views, shown), shown)
        predictions = [torch.sigmoid(f(z)) for f, z in zip(self.classifiers, codes, strict=True)]
        fused = self.fuse(predictions, shown, self.quality(predictions, shown))
        return {
            "classification": (known * bce(fused, labels)).sum() / known.sum(),
            "distillation": self.distillation(predictions, fused, shown, labels, known),
            "reconstruction": s.alpha * self.reconstruction(views, codes, shown, observed),
            "quantisation": quantisation,
        }

    def encode(self, views: list[Tensor], shown: Tensor) -> list[Tensor]:
        raw = []
        for v, x in enumerate(views):
            weights = [shown[:, v].to(x.dtype)] if self.settings.norm_rows == "observed" else None
            x = F.dropout(x, self.settings.input_dropout, self.training)
            raw += self.encoders[v]([x], weights)
        return raw

    def quantise(self, raw: list[Tensor], shown: Tensor) -> tuple[list[Tensor], Tensor]:
        """Eq. 1 and 3: every segment of an observed row becomes its nearest code."""
        kept = torch.cat([z[shown[:, v]] for v, z in enumerate(raw)])
        segments = F.normalize(kept.reshape(-1, self.settings.code_dim), dim=1)
        codes = F.normalize(self.codebook.codes, dim=1)
        nearest = (segments.detach() @ codes.T).argmax(dim=1)
        chosen = codes[nearest]
        if self.training:
            self.move_codes(segments.detach(), nearest)
        passed = (segments + (chosen - segments).detach()).reshape(kept.shape)
        result = []
        for v, part in enumerate(passed.split(shown.sum(dim=0).tolist())):
            code = torch.zeros_like(raw[v])
            code[shown[:, v]] = part
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

    def quality(self, predictions: list[Tensor], shown: Tensor) -> Tensor:
        """q_v = −‖Ŝ_v − Ŝ‖ (Eq. 4-6) over the rows that have the view; equal for a plain mean."""
        if self.settings.fusion == "mean":
            return torch.zeros_like(self.view_quality)
        result = []
        for v, prediction in enumerate(predictions):
            rows = prediction[shown[:, v]]
            gap = torch.linalg.matrix_norm(correlation(rows) - self.label_correlation)
            result.append(-gap if len(rows) else gap.new_full((), -1e9))
        return torch.stack(result)

    def fuse(self, predictions: list[Tensor], shown: Tensor, quality: Tensor) -> Tensor:
        """P = Σ_v w^v P^v (Eq. 7)."""
        logits = (quality / self.settings.temperature).expand(shown.shape)
        weights = torch.softmax(logits.masked_fill(~shown, -torch.inf), dim=1)
        parts = [weights[:, v, None] * p for v, p in enumerate(predictions)]
        return torch.stack(parts).sum(dim=0).clamp(0.0, 1.0)

    def distillation(
        self, predictions: list[Tensor], fused: Tensor, shown: Tensor, labels: Tensor, known: Tensor
    ) -> Tensor:
        """Eq. 9; the teacher's part summed over labels, the labels' part averaged."""
        share, total = self.settings.distill_weight, fused.new_zeros(())
        for v, student in enumerate(predictions):
            rows = shown[:, v].to(student.dtype)
            teacher = F.binary_cross_entropy(student, fused.detach(), reduction="none").sum(dim=1)
            cells = known * rows.unsqueeze(1)
            total = total + share * (rows * teacher).sum() / (rows.sum() + 1e-9)
            total = total + (1 - share) * (cells * bce(student, labels)).sum() / (
                cells.sum() + 1e-9
            )
        return total

    def reconstruction(
        self, views: list[Tensor], codes: list[Tensor], shown: Tensor, observed: Tensor
    ) -> Tensor:
        """Eq. 2: every observed view from the code of every view shown."""
        share = 1.0 / (shown.to(views[0].dtype).sum(dim=1).clamp(min=1) * len(shown))
        total = share.new_zeros(())
        for j, x in enumerate(views):
            pairs = [(shown[:, v] & observed[:, j]).to(x.dtype) for v in range(len(views))]
            if self.settings.norm_rows == "observed":
                decoded = self.decoders[j](codes, pairs)
            else:
                decoded = [self.decoders[j]([code], None)[0] for code in codes]
            for guess, pair in zip(decoded, pairs, strict=True):
                total = total + (((guess - x) ** 2).mean(dim=1) * pair * share).sum()
        return total

    def predict(self, views: list[Tensor], observed: Tensor) -> Tensor:
        """Fused probabilities (B, c) by the frozen view qualities, in evaluation mode."""
        return self.fuse(self.by_view(views, observed), observed, self.view_quality)

    def by_view(self, views: list[Tensor], observed: Tensor) -> list[Tensor]:
        """What each view says of every row, m times (B, c), in evaluation mode."""
        codes, _ = self.quantise(self.encode(views, observed), observed)
        return [torch.sigmoid(f(z)) for f, z in zip(self.classifiers, codes, strict=True)]


class Pooling(nn.Module):
    """The weighted log-odds of the views beyond those of the label, as learned by the library."""

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


class NaiveCommittee(nn.Module):
    """Several networks, one after the other, and their pooled answer: the default profile."""

    def __init__(self, dims: Sequence[int], n_labels: int, settings: Any) -> None:
        super().__init__()
        self.settings = settings
        count = settings.n_networks
        self.members = nn.ModuleList(NaiveSCSD(dims, n_labels, settings) for _ in range(count))
        self.votes = Pooling(len(dims), n_labels)

    def loss_terms(
        self, views: list[Tensor], observed: Tensor, labels: Tensor, known: Tensor
    ) -> dict[str, Tensor]:
        """The terms of Eq. 10, averaged over the networks."""
        terms = [member.loss_terms(views, observed, labels, known) for member in self.members]
        return {name: sum(own[name] for own in terms) / len(terms) for name in terms[0]}

    def predict(self, views: list[Tensor], observed: Tensor) -> Tensor:
        """Pooled probabilities (B, c), in evaluation mode."""
        answers = [member.by_view(views, observed) for member in self.members]
        means = [torch.stack(of_view).mean(dim=0) for of_view in zip(*answers, strict=True)]
        return self.votes(means, observed)


Naive = NaiveSCSD | NaiveCommittee


def bce(probability: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy of every cell, with the field's 1e-5 inside the logarithms."""
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


def from_weights(
    dims: Sequence[int], n_labels: int, settings: Any, weights: dict[str, Tensor]
) -> Naive:
    """The naive network with the weights of a library's network of the same settings."""
    first = next(value for value in weights.values() if value.is_floating_point())
    kind = NaiveCommittee if settings.fusion_statistics == "held_out" else NaiveSCSD
    network = kind(dims, n_labels, settings).to(first.device, first.dtype)
    mine = network.state_dict()
    network.load_state_dict({name: weights[name] for name in mine})
    return network


class NaiveTraining:
    """One training step after the other, on dense rows that lie on the device."""

    def __init__(
        self, network: Naive, views: list[Tensor], observed: Tensor, labels: Tensor
    ) -> None:
        self.network, self.settings = network, network.settings
        self.views, self.observed = views, observed
        self.known = (~labels.isnan()).to(views[0].dtype)
        self.labels = labels.nan_to_num(0.0).to(views[0].dtype)
        s = self.settings
        self.optimiser = torch.optim.AdamW(
            network.parameters(), lr=s.learning_rate, weight_decay=s.weight_decay
        )
        self.averaged = copy.deepcopy(network) if s.ema_decay > 0 else None

    def step(self) -> None:
        size = self.settings.batch_size
        rows = torch.randperm(len(self.observed))[:size].to(self.observed.device)
        views = [x[rows] for x in self.views]
        self.network.train()
        self.optimiser.zero_grad()
        terms = self.network.loss_terms(
            views, self.observed[rows], self.labels[rows], self.known[rows]
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
