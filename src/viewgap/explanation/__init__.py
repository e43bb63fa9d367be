"""Why an answer is what it is, by hiding views; and which view to measure next."""

from __future__ import annotations

from viewgap.explanation.contributions import answers_by_pattern, explain
from viewgap.explanation.next_view import ViewSuggester, suggest_view

__all__ = ["ViewSuggester", "answers_by_pattern", "explain", "suggest_view"]
