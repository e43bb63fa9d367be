"""CDMM: kernel ridge regression per view, kept apart from the other views, weighted by its loss."""

from viewgap.methods.cdmm.estimator import CDMM

__all__ = ["CDMM"]
