"""A small builder of ONNX graphs: nodes are added one by one, names are made here."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.errors import RunError

OPSET, ML_OPSET, IR_VERSION = 20, 3, 10


def require_onnx() -> None:
    """RunError where the packages that write ONNX files are not installed."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise RunError(
            "exporting needs the packages onnx and onnxscript: pip install 'viewgap[export]'"
        ) from None


class Graph:
    """Nodes and constants of one graph; values are known by their names.

    `add(operator, *inputs, **attributes)` returns the name of the first output. Names begin with
    a slash and a number, so that no view can have one of them.
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def new_name(self, hint: str) -> str:
        """Return a name that no other value of the graph has."""
        self._count += 1
        return f"/{self._count}/{hint}"

    def constant(self, array: Any, dtype: Any = None) -> str:
        """Return the name of a constant."""
        from onnx import numpy_helper

        name = self.new_name("constant")
        values: NDArray[Any] = np.ascontiguousarray(np.asarray(array, dtype=dtype))
        self.constants.append(numpy_helper.from_array(values.reshape(np.shape(array)), name))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        from onnx import helper

        out = self.new_name(operator)
        self.nodes.append(
            helper.make_node(operator, list(inputs), [out], name=out, domain=domain, **attributes)
        )
        return out

    def cast(self, value: str, dtype: Any) -> str:
        """Return the value in another number format."""
        from onnx import helper

        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def column(self, value: str) -> str:
        """Return (b,) as (b, 1)."""
        return self.add("Unsqueeze", value, self.constant([1], np.int64))

    def total(self, values: list[str]) -> str:
        """Return the sum of values of one shape, added up in their order."""
        result = values[0]
        for value in values[1:]:
            result = self.add("Add", result, value)
        return result

    def any_of(self, value: str) -> str:
        """Whether any entry of a row of booleans (b, d) is true, (b,)."""
        largest = self.add(
            "ReduceMax", self.cast(value, np.int32), self.constant([1], np.int64), keepdims=0
        )
        return self.cast(largest, np.bool_)
