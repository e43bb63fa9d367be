"""NAIM3L: linear models of non-aligned views, with low rank per label and high rank over all."""

from viewgap.methods.naim3l.estimator import NAIM3L

__all__ = ["NAIM3L"]
