"""Why an answer is what it is, by hiding views and shuffling columns; what to measure next."""

from __future__ import annotations

from viewgap.explanation.columns import column_importance
from viewgap.explanation.contributions import answers_by_pattern, explain
from viewgap.explanation.neighbours import nearest_samples
from viewgap.explanation.next_view import ViewSuggester, suggest_view

__all__ = [
    "ViewSuggester",
    "answers_by_pattern",
    "column_importance",
    "explain",
    "nearest_samples",
    "suggest_view",
]
