"""PCVE: an encoder for every pair of views, whose codes stay the same when sources change places.

Letters: source view u and target view t of m, x^u features, N(μ^ut, s^ut) what view u says of view
t, N(μ^u, s^u) code of a source, z fused code, W observed views, G observed labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Unpack, cast

import torch
from torch import Tensor, nn

from viewgap.constraints import Choice
from viewgap.data.labels import Labels
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.networks.autoencoders import fused_reconstruction
from viewgap.methods.networks.parameters import NetworkParameters
from viewgap.nn.contrast import cross_view_contrast
from viewgap.nn.dropout import ColumnMask, RandomModule
from viewgap.nn.gaussian import GaussianHead, MeanOfDraws, gaussian_kl, product_of_experts
from viewgap.nn.linear import make_linear
from viewgap.nn.losses import masked_bce
from viewgap.nn.mlp import MLP, Trunk
from viewgap.nn.reduce import weighted_mean
from viewgap.parameters import (
    AnyLayers,
    Count,
    CountOrZero,
    NonNegative,
    Positive,
    Share,
    Steps,
    Switch,
    Units,
    setting,
)
from viewgap.search import Around, Range
from viewgap.training.batches.batch import Batch
from viewgap.training.network import RowwiseNetwork
from viewgap.training.settings import DeepSettings


@dataclass(frozen=True, kw_only=True)
class PCVESettings(DeepSettings):
    """The settings of PCVE."""

    embedding: Units = setting(512, "Size of a code.")
    hidden: AnyLayers = setting((1024,), "Hidden layers of the head that all encoders share.")
    alpha: NonNegative = setting(1.0, "Weight α of the reconstruction.", Around(10))
    beta: NonNegative = setting(1.0, "Weight β of the permutation consistency.")
    gamma: NonNegative = setting(0.1, "Weight γ of the contrast between views.")
    sigma: NonNegative = setting(0.1, "Weight σ of the coherence of a source's codes.")
    temperature: Positive = setting(0.1, "Temperature of the contrast.")
    masking: Share = setting(0.25, "Share of the columns of every row hidden in training.")
    warm_up: CountOrZero = setting(
        10, "Epochs after which permuted codes count as much as the others."
    )
    rotations: Annotated[str, Choice("every step", "once")] = setting(
        "every step", "When the rotation of a sample's sources is drawn; as released, once."
    )
    draws: Steps = setting(2, "Number of draws that a code is the mean of in training.")
    draws_in_prediction: Switch = setting(
        False, "Whether prediction draws too, as released, instead of taking the mean."
    )
    dropout: Share = setting(0.0, "Dropout after every hidden layer.", Range(0, 0.7))
    max_epochs: Count = 150

    @property
    def prediction(self) -> str:
        """Draws make an answer depend on where in its batch a sample is."""
        return "batch" if self.draws_in_prediction else "row"


class Gaussians(NamedTuple):
    """Means and variances of the same shape."""

    mean: Tensor
    variance: Tensor


class Rotations(RandomModule):
    """By how many places the sources of every target are rotated: an order of 0 .. m-1 per sample.

    `table` (N, m), once for every training row, or empty: then drawn anew by every call.
    """

    table: Tensor

    def __init__(self, n_views: int, generator: torch.Generator) -> None:
        super().__init__()
        self.n_views = n_views
        self._seed = int(torch.randint(2**31, (), generator=generator, device="cpu"))
        self.register_buffer("table", torch.zeros(0, n_views, dtype=torch.long), persistent=False)

    def draw_once(self, rows: int) -> None:
        """Decide for all rows now; `rows=0` forgets."""
        draws = torch.rand(rows, self.n_views, generator=torch.Generator().manual_seed(self._seed))
        self.table = draws.argsort(dim=1).to(self.table.device)

    def forward(self, batch: Batch) -> Tensor:
        """Shape: -> (B, m)."""
        if len(self.table) and batch.rows is not None:
            return self.table[batch.rows]
        shape, device = (len(batch), self.n_views), batch.observed.device
        return torch.rand(shape, generator=self.generator, device=device).argsort(dim=1)


class PCVENetwork(RowwiseNetwork):
    """Encoders for pairs of views, a head that all share, decoders and a classifier."""

    shares_batches = True

    passes: Tensor

    def __init__(
        self,
        dims: Sequence[int],
        n_labels: int,
        settings: PCVESettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.settings, self.norm_rows, self.n_views = settings, settings.norm_rows, len(dims)
        size, dropout = settings.embedding, settings.dropout
        # The encoders of one source side by side: one product instead of m.
        encoders = [Trunk(d, (len(dims) * size,), dropout, generator) for d in dims]
        self.encoders = cast("Sequence[Trunk]", nn.ModuleList(encoders))
        self.shared = Trunk(size, (*settings.hidden, size), dropout, generator)
        self.head = GaussianHead(size, size, generator)
        decoders = [MLP(size, (size,), d, dropout, generator) for d in dims]
        self.decoders = cast("Sequence[MLP]", nn.ModuleList(decoders))
        self.classifier = make_linear(size, n_labels, generator)
        self.mask = ColumnMask(settings.masking)
        self.rotations = Rotations(len(dims), generator)
        self.draw = MeanOfDraws(settings.draws)
        self.register_buffer("passes", torch.zeros(()))

    # ------------------------------------------------------------------ life of a fit

    def prepare(self, labels: Labels) -> None:
        """Draw the rotations of all training rows, where they are drawn once."""
        if self.settings.rotations == "once":
            self.rotations.draw_once(len(labels))

    def begin_epoch(self) -> None:
        """Count the epochs, for the warm-up."""
        self.passes += 1

    def end_training(self) -> None:
        """The rotations are not needed any more."""
        self.rotations.draw_once(0)

    # ------------------------------------------------------------------ codes

    @property
    def code_size(self) -> int:
        """Mean and variance."""
        return 2 * self.settings.embedding

    def encode_view(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        """Mean and variance of the product of what a row says of all targets, side by side."""
        return combine_targets(self.encode_pairs(view, x, norm))

    def encode_pairs(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        """What the rows of a source say of every target. Shape: (R, d_v), (R,) -> (R, m, 2F)."""
        features = self.encoders[view](self.mask(x), norm)
        of_targets = features.unflatten(-1, (self.n_views, -1)).transpose(0, 1)
        if self.training:  # statistics of one target at a time, in their order
            norm = None if norm is None else norm.repeat(self.n_views, 1)
            codes: Tensor = self.head(self.shared(of_targets, norm))
        else:  # rows are computed in blocks, for which they must have two dimensions
            rows: Tensor = self.head(self.shared(of_targets.flatten(0, 1)))
            codes = rows.view(*of_targets.shape[:2], self.code_size)
        return codes.transpose(0, 1)

    def encode_batch(self, batch: Batch) -> Gaussians:
        """N(μ^ut, s^ut) of the whole batch, (m, B, m, F) twice; a standard normal without u.

        The shared head takes one view after the other: every call moves its running statistics.
        """
        norms = [batch.norm_weight(v, self.norm_rows) for v in range(self.n_views)]
        rows = []
        for v, norm in enumerate(norms):
            with batch.draws_of_view(v):
                rows.append(self.encode_pairs(v, batch.views[v], norm))
        codes = batch.gather(batch.stack(torch.cat(rows).flatten(1)), dim=1)
        mean, variance = codes.unflatten(-1, (self.n_views, -1)).chunk(2, dim=-1)
        has_view = batch.whole.observed.T[:, :, None, None]
        return Gaussians(mean, torch.where(has_view, variance, torch.ones_like(variance)))

    # ------------------------------------------------------------------ answers

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        """See `RowwiseNetwork`."""
        of_views = Gaussians(*codes.chunk(2, dim=-1))
        mean, variance = product_of_experts(of_views.mean, of_views.variance, observed)
        drawn = self.training or self.settings.draws_in_prediction
        return self.classify(self.draw(mean, variance) if drawn else mean)

    def classify(self, z: Tensor) -> Tensor:
        """Probabilities of fused codes. Shape: (B, F) -> (B, c)."""
        return torch.sigmoid(self.classifier(z))

    # ------------------------------------------------------------------ loss

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        """L = wBCE + α L_rec + β L_perm + γ L_con + σ L_coh, as named terms."""
        settings, whole, pairs = self.settings, batch.whole, self.encode_batch(batch)
        observed = whole.observed
        sources = rotated_sources(observed, self.rotations(whole))
        turned = Gaussians(*(exchange(values, sources) for values in pairs))
        codes, turned_codes = fuse_targets(pairs), fuse_targets(turned)
        with batch.draws_of_whole():
            z = self.draw(*product_of_experts(*codes, observed))
            turned_z = self.draw(*product_of_experts(*turned_codes, observed))
        answers = self.classify(z)
        rebuilt = [fused_reconstruction(batch, self.decoders, code) for code in (z, turned_z)]
        moved = [permutation_loss(*both, whole) for both in ((turned, pairs), (pairs, turned))]
        apart = [
            target_coherence(pairs, codes, observed),
            target_coherence(turned, turned_codes, observed),
        ]
        return {
            "classification": masked_bce(answers, whole.labels, whole.label_mask),
            "reconstruction": settings.alpha * self._both(*rebuilt),
            "permutation": settings.beta * self._both(*moved),
            "contrast": settings.gamma
            * cross_view_contrast(codes.mean, observed, settings.temperature),
            "coherence": settings.sigma * self._both(*apart),
        }

    def _both(self, plain: Tensor, turned: Tensor) -> Tensor:
        """The first of two terms during the warm-up, then their mean."""
        share = (self.passes > self.settings.warm_up).to(plain.dtype)
        return (plain + share * turned) / (1.0 + share)


def combine_targets(codes: Tensor) -> Tensor:
    """The product of the codes of all targets and a standard normal. Shape: (R, m, 2F) -> (R, 2F).

    All targets are always there: they are what one view says of each.
    """
    mean, variance = codes.transpose(0, 1).chunk(2, dim=-1)
    everything = torch.ones(codes.shape[:2], dtype=torch.bool, device=codes.device)
    return torch.cat(product_of_experts(mean, variance, everything), dim=-1)


def fuse_targets(pairs: Gaussians) -> Gaussians:
    """N(μ^u, s^u) of every source. Shape: (m, B, m, F) twice -> (m, B, F) twice."""
    sources, rows = pairs.mean.shape[:2]
    fused = combine_targets(torch.cat(pairs, dim=-1).flatten(0, 1))
    return Gaussians(*fused.unflatten(0, (sources, rows)).chunk(2, dim=-1))


def rotated_sources(observed: Tensor, rotations: Tensor) -> Tensor:
    """Which source takes the place of source u for target t, when those observed are rotated.

    The observed sources of a sample move on by `rotations[t]` places among themselves; a missing
    one stays where it is. Shape: observed (B, m) bool, rotations (B, m) -> (m, B, m), [u, i, t].
    """
    count = observed.sum(dim=1, keepdim=True).clamp(min=1)
    rank = observed.cumsum(dim=1) - 1
    order = torch.argsort((~observed).to(torch.uint8), dim=1, stable=True)
    before = (rank.unsqueeze(2) - rotations.unsqueeze(1)) % count.unsqueeze(2)
    taken = order.gather(1, before.flatten(1)).view_as(before)
    own = torch.arange(observed.shape[1], device=observed.device)[None, :, None]
    return torch.where(observed.unsqueeze(2), taken, own).transpose(0, 1)


def exchange(values: Tensor, sources: Tensor) -> Tensor:
    """`values[sources[u, i, t], i, t]` at [u, i, t]. Shape: (m, B, m, F), (m, B, m)."""
    return values.gather(0, sources.unsqueeze(-1).expand_as(values))


def permutation_loss(codes: Gaussians, others: Gaussians, batch: Batch) -> Tensor:
    """Mean over samples and their sources of mean_td KL(codes ‖ others): 0 if sources agree.

    Shape: (m, B, m, F) four times -> ().
    """
    terms = gaussian_kl(*codes, *others).mean(dim=(2, 3))
    has_view = batch.observed.T.to(terms.dtype)
    share = has_view / has_view.sum(dim=0).clamp(min=1.0)
    return (terms * share).sum() / batch.n_samples


def target_coherence(pairs: Gaussians, codes: Gaussians, observed: Tensor) -> Tensor:
    """Mean over observed sources of mean_td KL(N(μ^u, s^u) ‖ N(μ^ut, s^ut)).

    Shape: pairs (m, B, m, F) twice, codes (m, B, F) twice, observed (B, m) -> ().
    """
    mean, variance = (values.unsqueeze(2) for values in codes)
    terms = gaussian_kl(mean, variance, *pairs).mean(dim=(2, 3))
    return weighted_mean(terms, observed.T.to(terms.dtype))


class PCVE(DeepClassifier):
    r"""Permutation-consistent variational encoding.

    Every pair of a source view u and a target view t has an encoder: what u says of t is a Gaussian
    :math:`q^{ut}_i = N(\mu^{ut}_i, s^{ut}_i)`, through a head that all pairs share. The product of
    these over all targets t, and of a standard normal, is the code of the source,
    :math:`q^u_i = N(\mu^u_i, s^u_i)`, the product of the codes of the views that a sample has, and
    again of a standard normal, the fused code; :math:`z_i` is the mean of two draws from it, every
    decoder rebuilds its view from z, and :math:`P_i = \sigma(F z_i + b)`.

    What is said of a target should not depend on who says it. So for each target the observed
    sources of a sample are rotated, by a different number of places for every target, which gives
    :math:`\tilde q^{ut}_i`, and from these :math:`\tilde q^u_i` and :math:`\tilde z_i` in the same
    way. With :math:`n_i = \sum_u W_{iu}`:

    .. math:: L = \frac{\sum_{ij} G_{ij}\, \mathrm{BCE}(P_{ij}, Y_{ij})}{\sum_{ij} G_{ij}}
              + \alpha L_{rec} + \beta L_{perm} + \gamma L_{con} + \sigma L_{coh}

    .. math:: L_{rec} = \sum_v \frac{1}{B d_v} \sum_{ij} W_{iv} (\hat x^v_{ij} - x^v_{ij})^2, \quad
              L_{perm} = \frac1B \sum_{iu} \frac{W_{iu}}{n_i}\, \mathrm{mean}_{td}\,
              \mathrm{KL}(\tilde q^{ut}_i \,\|\, q^{ut}_i)

    .. math:: L_{coh} = \frac{\sum_{iu} W_{iu}\, \mathrm{mean}_{td}\,
              \mathrm{KL}(q^u_i \,\|\, q^{ut}_i)}{\sum_{iu} W_{iu}}, \quad
              L_{con} = -\mathrm{mean}_{u<v,\,i} \log \frac{\exp(\cos(\mu_i^u, \mu_i^v) / \tau)}
              {\sum_j \exp(\cos(\mu_i^u, \mu_j^v) / \tau)}

    :math:`L_{con}` is over the samples that have both views. After `warm_up` epochs
    :math:`L_{rec}`, :math:`L_{perm}` and :math:`L_{coh}` are means of what is written here and of
    the same with the roles of :math:`q` and :math:`\tilde q` exchanged. In training, a quarter of
    the columns of every row is hidden from the encoders.

    Deviations from the released code. Both profiles: the mean of draws is drawn at once, which is
    the same distribution; parts of the released network that nothing uses (label embeddings, a
    second set of encoders, classifiers of views) are left out. `profile="paper"` draws in
    prediction as released, from a fixed seed, and rotates a sample's sources in the same way in
    every epoch. `profile="default"`: prediction from means, so that every sample is answered for
    itself and repeatably; normalisation over observed rows only; new rotations in every step;
    patience of 40 epochs.

    There are m² encoders: their weights are m times those of one linear layer per view.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> small = {"hidden": (16,), "embedding": 8}
    >>> model = viewgap.PCVE(max_epochs=2, random_state=0, **small).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = (
        "variational codes of every pair of views, consistent when sources change places"
    )
    reference: ClassVar[str] = (
        "Liu, Li, Zhang et al.: Permutation-Consistent Variational Encoding for Incomplete "
        "Multi-View Multi-Label Classification, ICLR 2026"
    )
    certainty: ClassVar[str] = "released code"

    settings_type = PCVESettings
    network_type = PCVENetwork
    profiles: ClassVar = {
        "default": PCVESettings(patience=40),
        "paper": PCVESettings(
            norm_rows="all",
            rotations="once",
            draws_in_prediction=True,
            ties_renew_patience=True,
            patience=150,
        ),
    }

    def __init__(
        self,
        *,
        embedding: int | None = None,
        hidden: Sequence[int] | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
        sigma: float | None = None,
        temperature: float | None = None,
        masking: float | None = None,
        warm_up: int | None = None,
        rotations: str | None = None,
        draws: int | None = None,
        draws_in_prediction: bool | None = None,
        dropout: float | None = None,
        **shared: Unpack[NetworkParameters],
    ) -> None:
        self._store_parameters(locals())
