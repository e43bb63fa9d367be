"""What a method says about itself, read from its source: printing a table imports no torch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from viewgap import methods

_ATTRIBUTES = ("summary", "reference", "certainty")


@dataclass(frozen=True)
class MethodMetadata:
    """The class attributes `summary`, `reference` and `certainty` of a method."""

    summary: str = ""
    reference: str = ""
    certainty: str = ""

    @property
    def year(self) -> int | None:
        """Year of the reference, which stands at its end."""
        found = re.search(r"(19|20)\d\d$", self.reference)
        return int(found[0]) if found else None

    @property
    def is_reconstruction(self) -> bool:
        """Whether parts of a published method had to be inferred to write it."""
        return self.certainty.startswith("reconstruction")


@cache
def read_metadata(name: str) -> MethodMetadata:
    """Metadata of a method by its name; the method is imported only where its source is not ours.

    A name that is no method has empty metadata: records may be of methods that are not installed.
    """
    if name not in methods.names():
        return MethodMetadata()
    for path in _sources(name):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found = dict(_literals(node))
                if "summary" in found:
                    return MethodMetadata(**found)
    kind = methods.get(name)
    return MethodMetadata(**{key: getattr(kind, key, "") for key in _ATTRIBUTES})


def _sources(name: str) -> list[Path]:
    spec = find_spec(f"{methods.__name__}.{name}")
    if spec is None or spec.origin is None:
        return []
    origin = Path(spec.origin)
    return sorted(origin.parent.glob("*.py")) if origin.name == "__init__.py" else [origin]


def _literals(node: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    for statement in node.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        target = statement.target if isinstance(statement, ast.AnnAssign) else target
        if isinstance(target, ast.Name) and target.id in _ATTRIBUTES:
            value = getattr(statement, "value", None)
            if isinstance(value, ast.Constant):
                yield target.id, value.value
