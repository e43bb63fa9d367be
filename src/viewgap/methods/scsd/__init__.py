"""SCSD: shared codebook and fused-teacher self-distillation."""

from viewgap.methods.scsd.estimator import SCSD

__all__ = ["SCSD"]
