"""Why an answer is what it is, by hiding views; and which view to measure next."""

from __future__ import annotations

from viewgap.explanation.contributions import answers_by_pattern, explain

__all__ = ["answers_by_pattern", "explain"]
