"""What follows from probabilities: label sets with a guarantee."""

from viewgap.decide.label_sets import LabelSets

__all__ = ["LabelSets"]
