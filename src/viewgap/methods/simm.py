"""SIMM: one code that views share and one that each has for itself, kept orthogonal.

Letters: view v of m, x^v features, s^v private code, c^v shared code of a view, c their mean,
o and p^v logits, W observed views, G observed labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Unpack, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.methods.deep import DeepClassifier
from viewgap.methods.networks.autoencoders import mean_over_views
from viewgap.methods.networks.complete_data import CompleteDataNetwork, CompleteDataSettings
from viewgap.methods.networks.parameters import NetworkParameters
from viewgap.nn.linear import Linear, make_linear
from viewgap.nn.reduce import LOCAL, Reducer, weighted_mean
from viewgap.parameters import Count, NonNegative, Units, setting
from viewgap.training.batches.batch import Batch


@dataclass(frozen=True, kw_only=True)
class SIMMSettings(CompleteDataSettings):
    """The settings of SIMM. `norm_rows` changes nothing: there is no normalisation over rows."""

    embedding: Units = setting(64, "Size of a shared code, and of a private one.")
    alpha: NonNegative = setting(
        0.1, "Weight α of the confusion of views, and of the labels predicted from shared codes."
    )
    beta: NonNegative = setting(1e-3, "Weight β of the orthogonality of private and shared codes.")
    weight_decay: NonNegative = 1e-5
    max_epochs: Count = 200


class SIMMNetwork(CompleteDataNetwork):
    """Private and shared codes of views, a classifier of all of them, and two training heads."""

    def __init__(
        self,
        dims: Sequence[int],
        n_labels: int,
        settings: SIMMSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__(dims, settings)
        size, m = settings.embedding, len(dims)
        private = [make_linear(d, size, generator) for d in dims]
        before_shared = [make_linear(d, size, generator) for d in dims]
        self.private = cast("Sequence[Linear]", nn.ModuleList(private))
        self.before_shared = cast("Sequence[Linear]", nn.ModuleList(before_shared))
        self.shared = make_linear(size, size, generator)
        self.classifier = make_linear((m + 1) * size, n_labels, generator)
        self.shared_classifier = make_linear(size, n_labels, generator)
        self.discriminator = make_linear(size, m, generator)
        # What a missing view says for itself: that it is missing, which is learned.
        self.missing = nn.Parameter(torch.zeros(m, size))

    @property
    def code_size(self) -> int:
        """A private and a shared code."""
        return 2 * int(self.settings.embedding)

    def encode_view(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        """Private and shared code of rows of a view, side by side."""
        shared = self.shared(torch.relu(self.before_shared[view](x)))
        return torch.cat([torch.relu(self.private[view](x)), shared], dim=-1)

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        """See `RowwiseNetwork`."""
        codes, present = self.fill_in(codes, observed)
        private, of_views = codes.chunk(2, dim=-1)
        logits = self.logits(private, mean_over_views(of_views, present), present)
        return torch.sigmoid(logits)

    def logits(self, private: Tensor, shared: Tensor, present: Tensor) -> Tensor:
        """o = A [s^1, .., s^m, c] + a. Shape: (m, B, F), (B, F), (B, m) -> (B, c)."""
        seen = present.T.unsqueeze(-1)
        private = torch.where(seen, private, self.missing.unsqueeze(1))
        logits: Tensor = self.classifier(torch.cat([*private, shared], dim=-1))
        return logits

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        """L = L_ml + α (L_adv + L_sml) + β L_orth, as named terms."""
        present = self.present(batch)
        private, of_views = self.stack(batch, self.encode(batch)).chunk(2, dim=-1)
        shared = mean_over_views(of_views, present)
        settings, counts = self.settings, present.T.to(shared.dtype)
        reducer, known = self.reducer, self.label_weight(batch)
        predicted = self.shared_classifier(of_views)
        confused = confusion_loss(self.discriminator(of_views), counts, reducer)
        agreement = shared_label_loss(predicted, batch.labels, known, counts, reducer)
        overlap = orthogonality_loss(private, shared, counts, reducer)
        return {
            "classification": self.bce(self.logits(private, shared, present), batch),
            "confusion": settings.alpha * confused,
            "shared_labels": settings.alpha * agreement,
            "orthogonality": settings.beta * overlap,
        }


def mean_of_present_views(means: Tensor, counts: Tensor, reducer: Reducer = LOCAL) -> Tensor:
    """Mean over the views that some row has. Shape: (m,), weight of every row (m, B) -> ()."""
    return weighted_mean(means, (reducer.sum(counts.sum(dim=1)) > 0).to(means.dtype))


def confusion_loss(logits: Tensor, counts: Tensor, reducer: Reducer = LOCAL) -> Tensor:
    """L_adv = exp(−CE), CE: how badly the discriminator tells from c^v that it is of view v.

    Shape: logits (m, B, m), weight of every row (m, B) -> ().
    """
    own = torch.diagonal(F.log_softmax(logits, dim=-1), dim1=0, dim2=2).T
    means = weighted_mean(-own, counts, reducer, dim=(1,))
    return torch.exp(-mean_of_present_views(means, counts, reducer))


def shared_label_loss(
    logits: Tensor, labels: Tensor, known: Tensor, counts: Tensor, reducer: Reducer = LOCAL
) -> Tensor:
    """L_sml: cross-entropy of the labels predicted from each view's shared code, a mean of views.

    Shape: logits (m, B, c), labels and known (B, c), weight of every row (m, B) -> ().
    """
    target = labels.expand_as(logits)
    entries = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    weight = known * counts.unsqueeze(-1)
    means = weighted_mean(entries, weight, reducer, dim=(1, 2))
    return mean_of_present_views(means, weight.flatten(1), reducer)


def orthogonality_loss(
    private: Tensor, shared: Tensor, counts: Tensor, reducer: Reducer = LOCAL
) -> Tensor:
    """L_orth: mean |s_i^v · c_i| over the rows of a view, and over the views.

    Shape: private (m, B, F), shared (B, F), weight of every row (m, B) -> ().
    """
    products = (private * shared).sum(dim=-1).abs()
    means = weighted_mean(products, counts, reducer, dim=(1,))
    return mean_of_present_views(means, counts, reducer)


class SIMM(DeepClassifier):
    r"""View-specific information extraction: shared codes that confuse, private ones that differ.

    View v has a private code :math:`s^v = \mathrm{relu}(A_v x^v + a_v)` and a shared one,
    :math:`c^v = C\,\mathrm{relu}(B_v x^v + b_v) + b`, whose last layer is the same for all views.
    With c the mean of the shared codes, :math:`o = U [s^1, .., s^m, c] + u`, the prediction is
    :math:`P = \sigma(o)`, and

    .. math:: L = L_{ml} + \alpha (L_{adv} + L_{sml}) + \beta L_{orth}

    .. math:: L_{adv} = \exp\Big(\frac{1}{m} \sum_v \mathrm{mean}_i \log D(c_i^v)_v\Big), \quad
              L_{orth} = \frac{1}{m} \sum_v \mathrm{mean}_i\, |s_i^v \cdot c_i|

    :math:`L_{ml}`: cross-entropy of P; :math:`L_{sml}`: that of labels predicted from each
    :math:`c^v` by one more linear layer; D: a linear layer and softmax that guess the view of a
    shared code. As released, one optimiser minimises everything, D included: there is no game
    between two networks, :math:`L_{adv}` just falls when no view can be told.

    SIMM is for complete data. `profile="paper"`, with the settings of the released configuration,
    runs on incomplete data as the literature does (`incomplete="filled"`): column means for a
    missing view, 0 for an unknown label; ten epochs, and the weights of the last one, whatever
    the validation score. `profile="default"` (`incomplete="masked"`): means, cross-entropies and
    the other terms are over what is observed, and a missing view has a learned private code;
    early stopping.

    Deviations from the released code. Both profiles: columns are standardised on training rows, the
    released code sees all rows; weight decay is that of AdamW.

    Reference: Wu et al., IJCAI 2019.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.SIMM(max_epochs=2, embedding=8, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = "a code that views share and private ones, kept apart; complete data"
    reference: ClassVar[str] = (
        "Wu, Chen, Hu et al.: Multi-View Multi-Label Learning with View-Specific Information "
        "Extraction, IJCAI 2019"
    )
    certainty: ClassVar[str] = "released code"

    settings_type = SIMMSettings
    network_type = SIMMNetwork
    profiles: ClassVar = {
        "default": SIMMSettings(),
        "paper": SIMMSettings(incomplete="filled", max_epochs=10, min_epochs=10),
    }

    def __init__(
        self,
        *,
        incomplete: str | None = None,
        embedding: int | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        **shared: Unpack[NetworkParameters],
    ) -> None:
        self._store_parameters(locals())
