"""TDLSR, reconstructed: views filled in from neighbours, codes in two parts, label prototypes.

What the published method does in detail was not known when this was written: see the class `TDLSR`.

Letters: view v of m, x^v features, h^v code of a view, s^v its shared and p^v its specific part,
e_j prototype of label j, S label correlations, t trust in a view, W observed views, G observed
labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Unpack, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.data.labels import Labels
from viewgap.errors import parameter
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.networks.autoencoders import information_losses
from viewgap.methods.networks.parameters import NetworkParameters
from viewgap.methods.networks.references import ReferencedNetwork
from viewgap.nn.contrast import cross_view_contrast
from viewgap.nn.gaussian import MutualInformation
from viewgap.nn.label_graph import LabelSemantics, conditional_labels
from viewgap.nn.linear import Linear, make_linear
from viewgap.nn.losses import masked_bce, squared_error
from viewgap.nn.mlp import MLP
from viewgap.nn.neighbours import fill_from_neighbours
from viewgap.nn.streams import run_on_streams
from viewgap.parameters import AnyLayers, NonNegative, Positive, Share, Units, setting
from viewgap.search import Around, Range
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.sampled import Layout
from viewgap.training.settings import DeepSettings


@dataclass(frozen=True, kw_only=True)
class TDLSRSettings(DeepSettings):
    """The settings of TDLSR."""

    embedding: Units = setting(512, "Size of a code, of each of its parts and of a prototype.")
    hidden: AnyLayers = setting((1024,), "Hidden layers of encoders and, reversed, decoders.")
    alpha: NonNegative = setting(1.0, "Weight α of the reconstruction.", Around(10))
    beta: NonNegative = setting(0.01, "Weight β of the mutual information of the two parts.")
    gamma: NonNegative = setting(0.1, "Weight γ of the contrast of shared parts.")
    neighbours: Units = setting(10, "Neighbours k per view that a missing view is filled in from.")
    temperature: Positive = setting(0.2, "Temperature τ of the attention and of the contrast.")
    references: Units = setting(
        2048, "Most training samples kept to fill in views in prediction, drawn by the seed."
    )
    dropout: Share = setting(0.0, "Dropout after every hidden layer.", Range(0, 0.7))
    view_dropout: Share = setting(0.0, "Share of observed views hidden in training.", Range(0, 0.7))
    weight_decay: NonNegative = 1e-3

    def _check_together(self) -> None:
        super()._check_together()
        if self.norm_rows == "all" and self.view_dropout > 0:
            # Hidden rows hold values, and would have to count as the zeros of missing ones.
            self._refuse("view_dropout", f"0 with {parameter('norm_rows', 'all')}")


class TDLSRNetwork(ReferencedNetwork):
    """Encoders with two heads, decoders, prototypes, classifiers of views, and reference codes."""

    shares_batches = True

    label_graph: Tensor

    def __init__(
        self,
        dims: Sequence[int],
        n_labels: int,
        settings: TDLSRSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.settings, self.norm_rows, self.n_views = settings, settings.norm_rows, len(dims)
        size, dropout, hidden = settings.embedding, settings.dropout, settings.hidden
        encoders = [MLP(d, hidden, size, dropout, generator) for d in dims]
        self.encoders = cast("Sequence[MLP]", nn.ModuleList(encoders))
        heads = [[make_linear(size, size, generator) for _ in dims] for _ in range(2)]
        self.shared = cast("Sequence[Linear]", nn.ModuleList(heads[0]))
        self.specific = cast("Sequence[Linear]", nn.ModuleList(heads[1]))
        decoders = [MLP(2 * size, hidden[::-1], d, dropout, generator) for d in dims]
        self.decoders = cast("Sequence[MLP]", nn.ModuleList(decoders))
        bounds = [MutualInformation(size, generator) for _ in dims]
        self.information = cast("Sequence[MutualInformation]", nn.ModuleList(bounds))
        self.semantics = LabelSemantics(n_labels, size, generator)
        self.shared_classifier = make_linear(size, n_labels, generator)
        classifiers = [make_linear(size, n_labels, generator) for _ in dims]
        self.classifiers = cast("Sequence[Linear]", nn.ModuleList(classifiers))
        self.preference = nn.Parameter(torch.zeros(len(dims), n_labels))
        self.register_buffer("label_graph", torch.zeros(n_labels, n_labels))
        self._make_room(len(dims), settings.references, size, generator)

    def prepare(self, labels: Labels) -> None:
        """S from the observed positives of the training rows, without its diagonal."""
        graph = conditional_labels(torch.from_numpy(labels.values.astype("float32")))
        self.label_graph.copy_(graph.fill_diagonal_(0.0))

    @property
    def layout(self) -> Layout:
        """Only observed rows, unless missing ones count in the normalisation; some hidden."""
        rows = "dense" if self.norm_rows == "all" else "packed"
        return Layout(rows, self.norm_rows, view_dropout=self.settings.view_dropout)

    # ------------------------------------------------------------------ answers

    @property
    def code_size(self) -> int:
        """See `RowwiseNetwork`."""
        return self.settings.embedding

    def encode_view(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        """h of rows of a view."""
        code: Tensor = self.encoders[view](x, norm)
        return code

    def split(self, view: int, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Shared and specific part of codes of a view. Shape: (R, F) -> (R, F) twice."""
        features = F.gelu(codes)
        return self.shared[view](features), self.specific[view](features)

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        """See `RowwiseNetwork`: missing views are filled in from training samples."""
        return self.answer_from(codes, observed, self.reference_codes, self.reference_observed)

    def answer_from(
        self, codes: Tensor, observed: Tensor, others: Tensor, others_observed: Tensor
    ) -> Tensor:
        """As `answer`, with other samples to fill in views from. A sample never fills in itself:
        it lacks the view that is looked for.
        """
        near, temperature = self.settings.neighbours, self.settings.temperature
        sources = (others, others_observed)
        filled, trust = fill_from_neighbours(codes, observed, *sources, near, temperature)
        return self.classify(filled, trust)

    def classify(self, codes: Tensor, trust: Tensor) -> Tensor:
        """σ(Σ_v t_iv a_vj y_ij^v / Σ_v t_iv a_vj), a = exp(A), y^v the scores of a view.

        y_ij^v = u_jᵀ (σ(e_j) ⊙ s_i^v) + w_jᵛᵀ (σ(e_j) ⊙ p_i^v) + b_j. The gates belong to the
        weights as well as to the features. Shape: (m, B, F), (B, m) -> (B, c).
        """
        gate = torch.sigmoid(self.semantics(self.label_graph))
        common = self.shared_classifier.weight * gate
        scores = []
        for view, own in enumerate(self.classifiers):
            shared, specific = self.split(view, codes[view])
            by_both = F.linear(shared, common, self.shared_classifier.bias)
            scores.append(by_both + F.linear(specific, own.weight * gate, own.bias))
        weight = trust.T.unsqueeze(-1) * self.preference.exp().unsqueeze(1)
        # A sample of a batch that only fills it up has no view at all.
        total = (weight * torch.stack(scores)).sum(dim=0) / weight.sum(dim=0).clamp(min=1e-6)
        return torch.sigmoid(total)

    # ------------------------------------------------------------------ loss

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        """L = wBCE + α L_rec + β L_MI + γ L_con, as named terms."""
        settings, rows, whole = self.settings, self.encode(batch), batch.whole
        observed = whole.observed
        parts = [self.split(view, own) for view, own in enumerate(rows)]
        shared, specific = (torch.cat(own) for own in zip(*parts, strict=True))
        codes = batch.gather(batch.stack(torch.cat(rows)), dim=1)
        answers = self.answer_from(codes, observed, codes, observed)
        bound, misfit = information_losses(batch, self.information, shared, specific)
        shared = batch.gather(batch.stack(shared), dim=1)
        contrast = cross_view_contrast(shared, observed, settings.temperature)
        return {
            "classification": masked_bce(answers, whole.labels, whole.label_mask),
            "reconstruction": settings.alpha * self.reconstruction_loss(batch, parts),
            "information": settings.beta * bound,
            "contrast": settings.gamma * contrast,
            "auxiliary": misfit,
        }

    def reconstruction_loss(self, batch: Batch, parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """L_rec: every view from its own two parts, the mean of mean_k (x̂ − x)² over observed rows.

        Shape: `parts[v]` (R_v, F) twice, of the batch's rows of view v -> ().
        """

        def error(view: int) -> Tensor:
            decoder, views = self.decoders[view], batch.views
            both = torch.cat(parts[view], dim=-1)
            with batch.draws_of_view(view):
                hidden = decoder.hidden(both, batch.norm_weight(view, self.norm_rows))
            target = (views.tables[view], views.rows[view])
            return squared_error(decoder.output, hidden, *target, batch.row_weight_of(view))

        pieces = [partial(error, v) for v in range(self.n_views)]
        tables, rows = batch.views.tables, batch.views.rows
        uses = [[*parts[v], tables[v], rows[v]] for v in range(self.n_views)]
        count = torch.stack([batch.row_weight_of(v).sum() for v in range(self.n_views)]).sum()
        error_sum = batch.sum(torch.stack(run_on_streams(pieces, uses)).sum())
        return error_sum / batch.sum(count).clamp(min=1.0)


class TDLSR(DeepClassifier):
    r"""A reconstruction of TDLSR: theory-driven label-specific representations.

    **This is not the published method.** It was written without its code and, of its text, from the
    abstract and summaries by others. These say: missing views are filled in along graphs of nearest
    neighbours within each view, carried over from other views, with attention; shared and specific
    codes are separated by principles of mutual information called shift, interaction and
    orthogonality; prototypes of labels come from a graph of labels and gate the features,
    :math:`\sigma(e_j) \odot z`; the preference of labels for views is refined. Every form, size and
    weight below is inferred. Its figures say nothing about those of the published method.

    View v has a code :math:`h^v`. Sample i lacks view v: in every view u that it has, the k nearest
    samples j that have both u and v are looked up, and

    .. math:: h_i^v = \sum_{u,j} a_{uj} h_j^v, \quad
              a = \mathrm{softmax}_{uj}(\cos(h_i^u, h_j^u) / \tau), \quad
              t_{iv} = \max(0, \sum_{u,j} a_{uj} \cos(h_i^u, h_j^u))

    with :math:`t_{iv} = 1` for observed views. The samples j are those of the batch in training and
    training samples that are kept in the model in prediction, so that every sample is answered for
    itself. Two linear maps of gelu(h^v) give a shared part s^v and a specific part p^v. Labels have
    prototypes e_j from a graph network over label correlations S, and with
    :math:`a_{vj} = e^{A_{vj}}`, A learned:

    .. math:: y_{ij}^v = u_j^\top (\sigma(e_j) \odot s_i^v) + w_j^{v\top} (\sigma(e_j) \odot p_i^v)
              + b_j^v, \quad
              P_{ij} = \sigma\Big(\frac{\sum_v t_{iv} a_{vj} y_{ij}^v}{\sum_v t_{iv} a_{vj}}\Big)

    .. math:: L = \frac{\sum_{ij} G_{ij}\, \mathrm{BCE}(P_{ij}, Y_{ij})}{\sum_{ij} G_{ij}}
              + \alpha\, \mathrm{mean}_{iv} \frac{\|\hat x_i^v - x_i^v\|^2}{d_v}
              + \beta \frac1m \sum_v \hat I(s^v; p^v) + \gamma L_{con}

    Shift is read as what a view's parts keep of it, so :math:`\hat x^v` is rebuilt from
    :math:`[s^v; p^v]`; orthogonality as the vCLUB bound :math:`\hat I` of the information that the
    two parts share (`nn.gaussian.MutualInformation`); interaction as InfoNCE between the shared
    parts of a sample in two views, :math:`L_{con}`.

    Both profiles are the same: of the released code nothing is known that `"paper"` could keep.
    Dropout, hidden views, averaged weights and weight decay are ours, with the values of `DRLS`.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> small = {"hidden": (16,), "embedding": 8, "references": 20}
    >>> model = viewgap.TDLSR(max_epochs=2, random_state=0, **small).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = (
        "reconstruction of TDLSR: views filled in from neighbours, prototypes of labels as gates"
    )
    reference: ClassVar[str] = (
        "after Li, Xu, Luo et al.: Theory-Driven Label-Specific Representation for Incomplete "
        "Multi-View Multi-Label Learning, NeurIPS 2025"
    )
    certainty: ClassVar[str] = "reconstruction (mostly inferred)"

    settings_type = TDLSRSettings
    network_type = TDLSRNetwork
    profiles: ClassVar = dict.fromkeys(
        ("default", "paper"),
        TDLSRSettings(dropout=0.3, view_dropout=0.3, ema_decay=0.99, patience=40),
    )

    def __init__(
        self,
        *,
        embedding: int | None = None,
        hidden: Sequence[int] | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
        neighbours: int | None = None,
        temperature: float | None = None,
        references: int | None = None,
        dropout: float | None = None,
        view_dropout: float | None = None,
        **shared: Unpack[NetworkParameters],
    ) -> None:
        self._store_parameters(locals())

    def _label_matrices(self, settings: TDLSRSettings, n_views: int) -> float:
        return 3.0  # the graph, while it is made
