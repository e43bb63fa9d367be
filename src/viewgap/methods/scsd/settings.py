"""The settings of SCSD: every number and switch, and the three profiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from viewgap.constraints import Choice, Integer, Real
from viewgap.errors import parameter
from viewgap.methods.profiled import DataSize
from viewgap.parameters import (
    MOST_UNITS,
    Count,
    CountOrZero,
    Fraction,
    Layers,
    NonNegative,
    Positive,
    Share,
    Switch,
    Units,
    setting,
)
from viewgap.search import Around, Options, Range
from viewgap.training.settings import DeepSettings

LOG_EPSILON = 1e-5  # of the released code, and of the kernels
MANY_LABELS = 100
# From here on losses go through the labels in blocks, correlations compare the most frequent labels
# only, and there is one network: the weights of five classifiers of so many labels fill a machine.
THOUSANDS_OF_LABELS = 4096
LABEL_BLOCK = 2048
COMPARED_LABELS = 2048
MOST_COMPARED = 10_000
FEW_ENTRIES = 8_000
MANY_ROWS = 2_000
# The teacher's term is summed over labels, that of the observed labels averaged: with this weight
# per label the two keep the same balance, as long as the labels are few.
TEACHER = 3.0
# For many labels it is the same number up to 300 of them, and the balance beyond: at 2,000 labels a
# teacher of this weight would leave the observed labels next to nothing.
MOST_TEACHER, TEACHER_OF_MANY = 0.035, 10.9


@dataclass(frozen=True, kw_only=True)
class SCSDSettings(DeepSettings):
    """Every number and switch of one fit."""

    alpha: NonNegative = setting(
        0.1, "Weight of the reconstruction term (α in Eq. 10).", Around(10)
    )
    distill_weight: Fraction = setting(
        0.1,
        "Share of the teacher, beside the observed labels, in self-distillation.",
        Range(0.01, 0.8, log=True),
    )
    temperature: Positive = setting(5.0, "Temperature of the weights that views are fused with.")
    hidden: Layers = setting(
        (2048, 1024, 512),
        "Hidden layers of the encoders and, reversed, of the decoders.",
        Options((128,), (256,), (512,), (1024,)),
    )
    embedding: Units = setting(
        512,
        "Size of the representation of a view; a multiple of `code_dim`.",
        Options(64, 128, 256, 512),
    )
    dropout: Share = setting(0.0, "Share of hidden units dropped in training.", Range(0, 0.7))
    input_dropout: Share = setting(0.0, "Share of input values dropped in training.", Range(0, 0.5))
    view_dropout: Share = setting(0.0, "Share of observed views hidden in training.", Range(0, 0.7))
    codebook_size: Annotated[int, Integer(2, MOST_UNITS)] = setting(
        2048, "Number of codes in the shared codebook."
    )
    code_dim: Units = setting(4, "Size of a code.")
    codebook_decay: Fraction = setting(
        0.99, "Share that the moving averages of the codes keep per step."
    )
    codebook_learning: Annotated[str, Choice("ema", "gradient")] = setting(
        "ema", "How codes are learned: by moving averages, or by gradients."
    )
    code_length: Annotated[str, Choice("unit", "free")] = setting(
        "unit",
        "Codes, and the segments that they stand for, scaled to length 1; or as long as they are, "
        "and scaled for comparison only.",
    )
    quantisation_reduction: Annotated[str, Choice("mean", "sum")] = setting(
        "mean", "Distances to the codes are averaged or added up over a representation (Eq. 3)."
    )
    quantise: Switch = setting(True, "Whether representations are quantised by the codebook.")
    reconstruction: Switch = setting(True, "Whether views are reconstructed.")
    cross_view: Switch = setting(
        True, "Whether a view is reconstructed from the codes of the other views too."
    )
    pairs: Annotated[str, Choice("all", "sampled")] = setting(
        "all",
        "What a view is reconstructed from in a step: from every visible view of the sample, or "
        "from one of them, drawn at random, which costs less and is the same in expectation.",
    )
    decoder: Annotated[str, Choice("mirrored", "linear")] = setting(
        "mirrored", "Decoders: the hidden layers of the encoders reversed, or one linear layer."
    )
    reconstruction_reduction: Annotated[str, Choice("mean", "sum")] = setting(
        "mean", "Squared errors are averaged or added up over the columns of a view (Eq. 2)."
    )
    reconstruction_average: Annotated[str, Choice("samples", "pairs")] = setting(
        "samples",
        "What counts alike in the reconstruction term: samples, whose errors are divided by their "
        "number of views; or pairs of views of a sample.",
    )
    label_loss: Annotated[str, Choice("bce", "asymmetric")] = setting(
        "bce",
        "Loss of the observed labels: binary cross-entropy, or the asymmetric loss, in which easy "
        "negative labels count little.",
    )
    log_epsilon: Annotated[float, Real(0, 1, closed="left")] = setting(
        LOG_EPSILON, "Added to probabilities in the logarithms of the cross-entropy."
    )
    classifier: Annotated[str, Choice("linear", "label_graph", "label_specific")] = setting(
        "linear",
        "Classifiers of the views: a linear layer; linear, made by graph convolutions over labels "
        "that come together; or with features that are selected for every label, which takes "
        "memory for batch_size x labels x embedding numbers.",
    )
    self_distillation: Switch = setting(
        True, "Whether every view is trained on the labels and on the teacher, too."
    )
    teacher: Switch = setting(
        True, "Whether the fused prediction teaches the views in self-distillation."
    )
    distillation: Annotated[str, Choice("bce", "kl")] = setting(
        "bce",
        "What the views learn from the teacher by: cross-entropy or KL divergence, label by label; "
        "they differ by the entropy of the teacher, which has no gradient.",
    )
    distillation_average: Annotated[str, Choice("views", "pairs")] = setting(
        "views",
        "Self-distillation as the mean over the samples of a view, added up over the views; or as "
        "the mean over all pairs of a sample and a view (Eq. 9).",
    )
    fusion: Annotated[str, Choice("label_correlation", "mean")] = setting(
        "label_correlation",
        "How the teacher weights the views in training: by how well each keeps the label "
        "correlations, or alike.",
    )
    label_block: CountOrZero = setting(
        0,
        "Labels of which the losses are computed at a time, so that memory is needed for a block "
        "of them; 0: all at once. The numbers are the same but for rounding. Classifiers that are "
        "not linear are computed at once.",
    )
    correlation_labels: Annotated[int, Integer(0, MOST_COMPARED)] = setting(
        0,
        "How many labels the label correlations compare: the most frequent ones, as many as "
        "this; 0: all.",
    )
    correlation_diagonal: Switch = setting(
        False, "Whether label correlations keep their diagonal, which is 1 (Eq. 4, 5)."
    )
    pooling: Annotated[str, Choice("log_odds", "network", "batch")] = setting(
        "network",
        "How the views of a sample are combined in prediction: by their log-odds, with weights "
        "fitted on held-out rows; by label correlations over the training rows; or by those over "
        "the batch at hand, as released.",
    )
    weight_decay: NonNegative = 1e-3
    max_grad_norm: NonNegative = 0.01
    max_epochs: Count = 500
    patience: CountOrZero = 20

    def _check_together(self) -> None:
        super()._check_together()
        if self.norm_rows == "all" and self.view_dropout > 0:
            # Hidden rows hold values, and would have to count as the zeros of missing ones.
            self._refuse("view_dropout", f"0 with {parameter('norm_rows', 'all')}")
        if self.pairs == "sampled" and self.norm_rows == "all":
            self._refuse("pairs", f"'all' with {parameter('norm_rows', 'all')}")
        if self.pairs == "sampled" and self.reconstruction_average == "pairs":
            # One pair per view would make the pairs of samples with many views count less.
            self._refuse("pairs", f"'all' with {parameter('reconstruction_average', 'pairs')}")
        if self.embedding % self.code_dim:
            self._refuse("embedding", f"a multiple of {parameter('code_dim')} ({self.code_dim})")

    @property
    def has_released_losses(self) -> bool:
        """Whether the losses of the predictions are those that the kernels compute."""
        own = (self.label_loss, self.log_epsilon, self.distillation, self.distillation_average)
        return own == ("bce", LOG_EPSILON, "bce", "views")

    @property
    def prediction(self) -> str:
        """With weights of the views that are fixed every sample is answered for itself."""
        return "batch" if self.pooling == "batch" else "row"


def default_profile(n_labels: int, size: DataSize | None = None) -> SCSDSettings:
    """The clean model. Its size follows from how much there is to learn from.

    Few labels supervise little, and a large network overfits them. Five networks leave out a fifth
    of the rows each: their mean is better than one, and what is learned from rows that were not
    trained on (epoch, pooling, thresholds) is learned from all of them. The numbers were chosen on
    validation and out-of-fold rows; `docs/quality.md` has what each of them brings.
    """
    common: dict[str, Any] = {
        "features": "auto",
        "fusion": "mean",
        "pooling": "log_odds",
        "ema_decay": 0.99,
        "n_networks": 5,
        "cross_fit": True,
        "decoder": "linear",
        "pairs": "sampled",
    }
    if n_labels > THOUSANDS_OF_LABELS:
        common |= {"n_networks": 1, "cross_fit": False, "correlation_labels": COMPARED_LABELS}
    if n_labels >= MANY_LABELS:
        return SCSDSettings(
            **common,
            label_block=_block_of(n_labels),
            distill_weight=min(MOST_TEACHER, TEACHER_OF_MANY / (TEACHER_OF_MANY + n_labels)),
            input_dropout=0.1,
            view_dropout=0.3,
            batch_size=256,
            min_epochs=40,
        )
    few = size is not None and size.label_entries < FEW_ENTRIES
    many = size is not None and size.rows >= MANY_ROWS
    return SCSDSettings(
        **common,
        alpha=1.0,
        distill_weight=TEACHER / (TEACHER + n_labels),
        learning_rate=6e-3 if many else 4e-3,
        batch_size=256 if many else 128,
        hidden=(256,) if few or many else (512,),
        embedding=128 if few or many else 256,
        codebook_size=256,
        dropout=0.5,
        input_dropout=0.2,
        view_dropout=0.5,
        min_epochs=15,
        patience=10,
    )


def paper_profile(n_labels: int, size: DataSize | None = None) -> SCSDSettings:
    """The released semantics, with the sizes published for Corel5k whatever the data."""
    return SCSDSettings(
        pooling="batch",
        norm_rows="all",
        ties_renew_patience=True,
        label_block=_block_of(n_labels),
    )


def equations_profile(n_labels: int, size: DataSize | None = None) -> SCSDSettings:
    """The paper's equations as printed, where the released code deviates from them.

    What the paper does not say (sizes, statistics over missing rows, patience) is as released,
    except that nothing limits the gradient. `configs/equations.toml` switches one by one.
    """
    return replace(
        paper_profile(n_labels, size),
        codebook_learning="gradient",
        code_length="free",
        quantisation_reduction="sum",
        reconstruction_reduction="sum",
        reconstruction_average="pairs",
        log_epsilon=0.0,
        distillation="kl",
        distillation_average="pairs",
        correlation_diagonal=True,
        max_grad_norm=0.0,
    )


def _block_of(n_labels: int) -> int:
    return LABEL_BLOCK if n_labels > THOUSANDS_OF_LABELS else 0


PROFILES = {
    "default": default_profile,
    "paper": paper_profile,
    "equations": equations_profile,
}
