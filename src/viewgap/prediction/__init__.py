"""Answers for new data: the contract before it, prediction in blocks, and files of answers."""

from __future__ import annotations

from viewgap.prediction.contract import DataCheck, check

__all__ = ["DataCheck", "check"]
