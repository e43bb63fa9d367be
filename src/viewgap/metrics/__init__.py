"""How good scores are: the field's six metrics, per-label figures, calibration, thresholds.

numpy only. A metric is one function in one registry (`register_metric`).

Two named variants of the six:

- `"clean"`, the default: samples on which a metric says nothing are skipped, ties count against
  the scores, and perfect scores give exactly 1.0 in every metric;
- `"field"`: the definitions behind the published tables of incomplete multi-view multi-label
  classification, oddities included (samples without positives count as failures of AP and OE and
  lift 1-Cov above 1, about which a warning tells). Experiments ask for it by name.

`Y` holds 0, 1 or NaN (not observed), `P` finite scores or NaN (no evidence for that label). A NaN
entry leaves the ranking of its sample; a sample with no entry left is skipped; a metric that no
sample defines is NaN, never an exception. All metrics: higher is better.

Every function takes DataFrames: two are aligned, samples by index and labels by column name, and
different samples or labels are an error; a DataFrame beside an array is taken by position.
"""

from __future__ import annotations

from viewgap.metrics.calibration import (
    calibration_error,
    calibration_error_per_label,
    excess_calibration_error,
)
from viewgap.metrics.evaluation import EXTRA, SIX, Evaluation, evaluate, evaluate_all
from viewgap.metrics.per_label import f1_scores, macro_auc, per_label_report
from viewgap.metrics.prediction import Prediction
from viewgap.metrics.ranking import (
    adapted_auc,
    average_precision,
    coverage_score,
    hamming_score,
    one_error_score,
    ranking_score,
)
from viewgap.metrics.registry import Metric, get_metric, register_metric, registered_metrics
from viewgap.metrics.streams import MetricStream, ThresholdStream, evaluate_blocks
from viewgap.metrics.thresholds import expected_f1_thresholds, fit_thresholds

__all__ = [
    "EXTRA",
    "SIX",
    "Evaluation",
    "Metric",
    "MetricStream",
    "Prediction",
    "ThresholdStream",
    "adapted_auc",
    "average_precision",
    "calibration_error",
    "calibration_error_per_label",
    "coverage_score",
    "evaluate",
    "evaluate_all",
    "evaluate_blocks",
    "excess_calibration_error",
    "expected_f1_thresholds",
    "f1_scores",
    "fit_thresholds",
    "get_metric",
    "hamming_score",
    "macro_auc",
    "one_error_score",
    "per_label_report",
    "ranking_score",
    "register_metric",
    "registered_metrics",
]
