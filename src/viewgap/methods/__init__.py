"""One module or package per method; `names` and `get` find them, see `registry`."""

from viewgap.methods.registry import get, names

__all__ = ["get", "names"]
