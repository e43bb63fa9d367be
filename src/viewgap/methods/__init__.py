"""One module or package per method; `names` and `get` find them, see `registry`.

Beside them lie the base classes (`base`, `profiled`, `deep`) and what methods share, in folders:
`estimator`, `fitting`, `networks`, `trees`, `linalg`.
"""

from viewgap.methods.registry import get, names

__all__ = ["get", "names"]
