"""One ridge regression per view; the answers of the observed views are averaged."""

from viewgap.methods.late_fusion_ridge.estimator import LateFusionRidge

__all__ = ["LateFusionRidge"]
