"""What is in the data before anything is fitted: findings, tables, one page."""

from __future__ import annotations

from viewgap.inspection.findings import Finding
from viewgap.inspection.inspection import Inspection, inspect

__all__ = ["Finding", "Inspection", "inspect"]
