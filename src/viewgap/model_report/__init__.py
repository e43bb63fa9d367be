"""A fitted model on labelled data as one page: scores, views, labels, samples, model card."""

from __future__ import annotations

from viewgap.model_report.reporting import ModelReport, report

__all__ = ["ModelReport", "report"]
