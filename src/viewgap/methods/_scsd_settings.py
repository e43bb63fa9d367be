"""The settings of SCSD: every number and switch, and the two profiles."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from viewgap.errors import SettingError
from viewgap.training.loop import LoopSettings

_CHOICES = {
    "codebook_learning": ("ema", "gradient"),
    "fusion": ("label_correlation", "mean"),
    "fusion_statistics": ("train", "batch"),
    "norm_rows": ("observed", "all"),
    "scaling": ("observed", "none"),
}


@dataclass(frozen=True)
class SCSDSettings:
    """Every number and switch of one fit. The defaults are those of the clean profile."""

    alpha: float = 0.1
    distill_weight: float = 0.1
    temperature: float = 5.0
    hidden: tuple[int, ...] | None = None
    embedding: int = 512
    dropout: float = 0.0
    codebook_size: int = 512
    code_dim: int = 4
    codebook_decay: float = 0.99
    codebook_learning: str = "ema"
    quantise: bool = True
    reconstruction: bool = True
    cross_view: bool = True
    self_distillation: bool = True
    teacher: bool = True
    fusion: str = "label_correlation"
    fusion_statistics: str = "train"
    norm_rows: str = "observed"
    scaling: str = "observed"
    learning_rate: float = 1e-3
    weight_decay: float = 1e-3
    clip: float = 0.01
    batch_size: int = 128
    max_epochs: int = 500
    patience: int = 20

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise SettingError(
                    f"{name} must be one of {allowed}, found {getattr(self, name)!r}"
                )
        for name in ("temperature", "learning_rate", "embedding", "code_dim", "max_epochs"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name} must be above 0, found {getattr(self, name)!r}")
        if self.batch_size < 2 or self.codebook_size < 2:
            raise SettingError("batch_size and codebook_size must be at least 2")
        if not 0.0 <= self.dropout < 1.0 or not 0.0 <= self.distill_weight <= 1.0:
            raise SettingError("dropout must lie in [0, 1) and distill_weight in [0, 1]")
        if self.embedding % self.code_dim:
            raise SettingError(
                f"embedding ({self.embedding}) must be a multiple of code_dim ({self.code_dim})"
            )

    def hidden_for(self, columns: int) -> tuple[int, ...]:
        """Hidden layer sizes of a view: as set, or two layers that grow with its columns."""
        if self.hidden is not None:
            return self.hidden
        first = int(min(2048, max(256, 2 ** math.ceil(math.log2(2 * columns)))))
        return (first, max(256, first // 2))

    def loop(self) -> LoopSettings:
        """The part that the training loop needs."""
        names = (f.name for f in fields(LoopSettings))
        return LoopSettings(**{name: getattr(self, name) for name in names})


PROFILES = {
    "default": SCSDSettings(),
    "paper": SCSDSettings(
        hidden=(2048, 1024, 512),
        codebook_size=2048,
        fusion_statistics="batch",
        norm_rows="all",
    ),
}
