"""ELSMML: latent semantics of the labels, regressed on projections of every view."""

from viewgap.methods.elsmml.estimator import ELSMML

__all__ = ["ELSMML"]
