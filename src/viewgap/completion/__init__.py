"""Labels completed: probabilities where nobody looked, and observed labels that look wrong."""

from viewgap.completion.complete import complete_labels
from viewgap.completion.result import LabelCompletion

__all__ = ["LabelCompletion", "complete_labels"]
