"""What there is to say about every method, for the command line, tables and reports."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from viewgap import methods
from viewgap.constraints import descriptions
from viewgap.errors import SettingError, ViewgapWarning
from viewgap.methods.registry import builtin_names, module_of

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
        match = re.search(r"(19|20)\d\d$", self.reference)
        return int(match[0]) if match else None

    @property
    def is_reconstruction(self) -> bool:
        """Whether parts of a published method had to be inferred to write it."""
        return self.certainty.startswith("reconstruction")


@cache
def read_metadata(name: str) -> MethodMetadata:
    """Metadata of a method by its name, read from its source: printing a table imports no torch.

    A method is imported only where its source is not ours. A name that is no method has empty
    metadata: records may be of methods that are not installed.
    """
    if name not in methods.names():
        return MethodMetadata()
    for path in _sources(name):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                values = dict(_literals(node))
                if "summary" in values:
                    return MethodMetadata(**values)
    kind = methods.get(name)
    return MethodMetadata(**{key: getattr(kind, key, "") for key in _ATTRIBUTES})


def _sources(name: str) -> list[Path]:
    if name not in builtin_names():
        return []
    spec = find_spec(module_of(name))
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


@dataclass(frozen=True)
class Entry:
    """One method. `parameters`: its own, without those that all methods or all networks have."""

    method: str
    class_name: str
    summary: str
    reference: str
    year: int | None
    parameters: tuple[str, ...]
    profiles: tuple[str, ...]
    certainty: str
    semi_supervised: bool


def catalogue() -> Iterator[Entry]:
    """All methods, in the order of their names. Imports every one of them."""
    from viewgap.methods.deep import DeepClassifier
    from viewgap.training.settings import DeepSettings

    common = {*descriptions(DeepClassifier), *(f.name for f in fields(DeepSettings))}
    for name in methods.names():
        try:
            kind = methods.get(name)
        except SettingError as error:  # a method of another package that cannot be imported
            warnings.warn(str(error), ViewgapWarning, stacklevel=2)
            continue
        parameters = kind._get_param_names()
        yield Entry(
            method=name,
            class_name=kind.__name__,
            summary=kind.summary,
            reference=kind.reference,
            year=read_metadata(name).year,
            parameters=tuple(p for p in parameters if p not in common),
            profiles=tuple(getattr(kind, "profiles", ("default",))),
            certainty=kind.certainty or "baseline",
            semi_supervised=kind.semi_supervised,
        )
