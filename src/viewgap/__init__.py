"""viewgap: multi-label classification for data in several views, when views and labels are missing.

The names below are the public interface. They are loaded on first use, so that `import viewgap`
stays fast and imports neither torch nor scikit-learn nor pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from viewgap import errors

if TYPE_CHECKING:
    from viewgap.comparison import compare
    from viewgap.completion import complete_labels
    from viewgap.data.splits import amputate
    from viewgap.data.viewset import ViewSet
    from viewgap.datasets import load_dataset
    from viewgap.decide import LabelSets
    from viewgap.ensemble import Ensemble
    from viewgap.explanation import (
        ViewSuggester,
        column_importance,
        explain,
        nearest_samples,
        suggest_view,
    )
    from viewgap.export import export_onnx
    from viewgap.hub import push_to_hub
    from viewgap.inspection import inspect
    from viewgap.methods.aimnet import AIMNet
    from viewgap.methods.cdmm import CDMM
    from viewgap.methods.ddinet import DDINet
    from viewgap.methods.dicnet import DICNet
    from viewgap.methods.drls import DRLS
    from viewgap.methods.dvsm import DVSM
    from viewgap.methods.elsmml import ELSMML
    from viewgap.methods.extra_trees import ExtraTrees
    from viewgap.methods.gradient_boosting import GradientBoosting
    from viewgap.methods.imputed_logistic import ImputedLogistic
    from viewgap.methods.imvwl import IMvWL
    from viewgap.methods.joint_boosting import JointBoosting
    from viewgap.methods.label_frequency import LabelFrequency
    from viewgap.methods.late_fusion_ridge import LateFusionRidge
    from viewgap.methods.lmvcat import LMVCAT
    from viewgap.methods.mtd import MTD
    from viewgap.methods.naim3l import NAIM3L
    from viewgap.methods.pcve import PCVE
    from viewgap.methods.random_forest import RandomForest
    from viewgap.methods.rank import RANK
    from viewgap.methods.scsd import SCSD
    from viewgap.methods.simm import SIMM
    from viewgap.methods.sip import SIP
    from viewgap.methods.tdlsr import TDLSR
    from viewgap.metrics import evaluate
    from viewgap.model_file import load_model, save_model
    from viewgap.model_info import info
    from viewgap.model_report import report
    from viewgap.prediction import BatchPredictor, check, predict_batches
    from viewgap.tuning import tune

    __version__: str

__all__ = [
    "CDMM",
    "DRLS",
    "DVSM",
    "ELSMML",
    "LMVCAT",
    "MTD",
    "NAIM3L",
    "PCVE",
    "RANK",
    "SCSD",
    "SIMM",
    "SIP",
    "TDLSR",
    "AIMNet",
    "BatchPredictor",
    "DDINet",
    "DICNet",
    "Ensemble",
    "ExtraTrees",
    "GradientBoosting",
    "IMvWL",
    "ImputedLogistic",
    "JointBoosting",
    "LabelFrequency",
    "LabelSets",
    "LateFusionRidge",
    "RandomForest",
    "ViewSet",
    "ViewSuggester",
    "__version__",
    "amputate",
    "check",
    "column_importance",
    "compare",
    "complete_labels",
    "errors",
    "evaluate",
    "explain",
    "export_onnx",
    "info",
    "inspect",
    "load_dataset",
    "load_model",
    "nearest_samples",
    "predict_batches",
    "push_to_hub",
    "report",
    "save_model",
    "suggest_view",
    "tune",
]

_HOMES = {
    "BatchPredictor": "viewgap.prediction",
    "LabelSets": "viewgap.decide",
    "ViewSet": "viewgap.data.viewset",
    "ViewSuggester": "viewgap.explanation",
    "amputate": "viewgap.data.splits",
    "check": "viewgap.prediction",
    "column_importance": "viewgap.explanation",
    "compare": "viewgap.comparison",
    "complete_labels": "viewgap.completion",
    "evaluate": "viewgap.metrics",
    "explain": "viewgap.explanation",
    "export_onnx": "viewgap.export",
    "info": "viewgap.model_info",
    "inspect": "viewgap.inspection",
    "load_dataset": "viewgap.datasets",
    "load_model": "viewgap.model_file",
    "nearest_samples": "viewgap.explanation",
    "predict_batches": "viewgap.prediction",
    "push_to_hub": "viewgap.hub",
    "report": "viewgap.model_report",
    "save_model": "viewgap.model_file",
    "suggest_view": "viewgap.explanation",
    "tune": "viewgap.tuning",
}

# Packages with more public names, as attributes: `viewgap.metrics.average_precision`.
_PACKAGES = ("data", "datasets", "metrics", "methods", "model_selection")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name[:1].isupper():
        method = importlib.import_module("viewgap.methods.registry").by_class_name(name)
        if method is not None:
            return method
    if name in _PACKAGES:
        return importlib.import_module(f"viewgap.{name}")
    raise AttributeError(f"module 'viewgap' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("viewgap")
    except PackageNotFoundError:  # used from a source tree that was not installed
        return "0+unknown"
