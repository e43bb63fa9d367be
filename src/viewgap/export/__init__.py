"""A fitted model as one ONNX file: what other programs predict with, without viewgap or torch."""

from viewgap.export.onnx_file import export_onnx

__all__ = ["export_onnx"]
