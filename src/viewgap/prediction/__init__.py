"""Answers for new data: the contract before it, prediction in blocks and batches, files."""

from __future__ import annotations

from viewgap.prediction.batches import BatchPredictor, predict_batches
from viewgap.prediction.contract import DataCheck, check

__all__ = ["BatchPredictor", "DataCheck", "check", "predict_batches"]
