"""iMvWL: a shared non-negative subspace of incomplete views, and weak labels read from it."""

from viewgap.methods.imvwl.estimator import IMvWL

__all__ = ["IMvWL"]
