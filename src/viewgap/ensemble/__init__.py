"""Several methods cross-fitted and stacked: the default of `viewgap fit`."""

from viewgap.ensemble.estimator import Ensemble

__all__ = ["Ensemble"]
