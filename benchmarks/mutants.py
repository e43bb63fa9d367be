"""Mutation testing: small faults put into the code one by one, and whether the tests notice.

    python -m benchmarks.mutants                             # the four targets, 60 mutants of each
    python -m benchmarks.mutants --targets risk_control reduce --sample 1000 --out mutants.json

A mutant changes one comparison, arithmetic or boolean operation, number, truth value, `not` or
condition of a target (not in annotations, docstrings, or the text of errors). The mirrored tests
run with it until the first one fails; a mutant that none of them notices survives. One that takes
longer than the limit counts as noticed (an endless loop is). Mutants are drawn with a seed where
there are more than asked for. Every mutant is tested in a forked process, whose import of the
module gets the changed code: no file is touched, and Python, numpy and torch are imported once.
Needs Linux or macOS.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
# A fault must be found by the examples that everybody's tests try, the same in every run.
os.environ.setdefault("HYPOTHESIS_PROFILE", "mutants")

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TARGETS: dict[str, tuple[list[str], list[str]]] = {
    "metrics": (
        ["metrics"],
        ["tests/metrics", "tests/oracle/test_metrics_oracle.py"],
    ),
    "reduce": (["nn/reduce.py"], ["tests/nn/test_reduce.py", "tests/nn/test_codebook.py"]),
    "risk_control": (
        ["decide/risk_control.py"],
        ["tests/decide/test_risk_control.py", "tests/decide/test_losses.py"],
    ),
    "validation": (
        ["data/validation.py"],
        [
            "tests/data/test_validation.py",
            "tests/data/test_validation_refusals.py",
            "tests/data/rows/test_alignment.py",
            "tests/data/test_missing_values.py",
            "tests/data/labels/test_sparse_labels.py",
            "tests/data/rows/test_tables.py",
            "tests/data/test_viewset_sklearn.py",
            "tests/data/test_viewset.py",
            "tests/data/labels/test_labels.py",
            "tests/data/rows/test_ids.py",
            "tests/faults/test_types_and_shapes.py",
            "tests/faults/test_ids_and_names.py",
        ],
    ),
}
COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATIONS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.MatMult: ast.Mult,
}

# ------------------------------------------------------------------ mutants


def changes(node: ast.AST) -> Iterator[tuple[str, Callable[[Any], ast.AST]]]:
    """What can be made of a node: a description, and a function that makes it of a copy."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            new = COMPARISONS[type(operator)]
            yield f"{type(operator).__name__} -> {new.__name__}", _with_operator(place, new)
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATIONS:
        new = OPERATIONS[type(node.op)]
        yield f"{type(node.op).__name__} -> {new.__name__}", _with("op", new())
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"{type(node.op).__name__} -> {type(other).__name__}", _with("op", other)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        yield f"no {type(node.op).__name__}", lambda own: own.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield f"{node.value} -> {node.value + 1}", _with("value", node.value + 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield f"{node.value} -> {not node.value}", _with("value", not node.value)
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "condition negated", _negated


def _with(field: str, value: Any) -> Callable[[Any], ast.AST]:
    def change(node: Any) -> ast.AST:
        setattr(node, field, value)
        return node  # type: ignore[no-any-return]

    return change


def _with_operator(place: int, new: type) -> Callable[[Any], ast.AST]:
    def change(node: Any) -> ast.AST:
        node.ops[place] = new()
        return node  # type: ignore[no-any-return]

    return change


def _negated(node: Any) -> ast.AST:
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node  # type: ignore[no-any-return]


def candidates(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that are code: no annotations, no text of errors and warnings, no bare text."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop(0)
        yield node
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            children = value if isinstance(value, list) else [value]
            waiting.extend(child for child in children if _is_code(child))


def _is_code(node: Any) -> bool:
    return isinstance(node, ast.AST) and not isinstance(node, ast.Raise | ast.JoinedStr)


def mutants(path: Path) -> list[tuple[int, int, str]]:
    """Every change of a file: number of its node, number among its changes, and what it is."""
    found = []
    for number, node in enumerate(candidates(ast.parse(path.read_text()))):
        for which, (words, _) in enumerate(changes(node)):
            found.append((number, which, f"line {getattr(node, 'lineno', 0)}: {words}"))
    return found


def mutated(path: Path, number: int, which: int) -> ast.Module:
    """The tree of a file with one of its changes made."""
    tree = ast.parse(path.read_text())
    target = list(candidates(tree))[number]
    new = list(changes(target))[which][1](copy.deepcopy(target))

    class Put(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return new if node is target else self.generic_visit(node)

    return ast.fix_missing_locations(Put().visit(tree))  # type: ignore[no-any-return]


# ------------------------------------------------------------------ tests with a mutant


class Mutant(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds one module, and loads it with changed code."""

    def __init__(self, path: Path, tree: ast.Module) -> None:
        names = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(names[:-1] if names[-1] == "__init__" else names)
        super().__init__(name, str(path))
        self._tree = tree

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """See `MetaPathFinder`."""
        if fullname != self.name:
            return None
        places = [str(Path(self.path).parent)] if self.path.endswith("__init__.py") else None
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=self, submodule_search_locations=places
        )

    def get_code(self, fullname: str) -> Any:
        """See `SourceFileLoader`."""
        return compile(self._tree, self.path, "exec")


def import_for_all() -> None:
    """What every process would import; nothing of viewgap."""
    import hypothesis.extra.numpy
    import pandas
    import pytest
    import safetensors.numpy
    import scipy.sparse
    import scipy.stats
    import sklearn.metrics
    import torch

    hypothesis.settings.register_profile(
        "mutants", deadline=None, max_examples=15, derandomize=True, database=None
    )
    assert "viewgap" not in sys.modules
    del pandas, pytest, safetensors, scipy, sklearn, torch


def run_tests(tests: list[str], mutant: Mutant | None, limit: float) -> str:
    """How the tests end in a process of their own: "passed", "failed" or "too slow"."""
    process = os.fork()
    if process == 0:
        code = 70
        try:
            sink = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(sink, stream)
            if mutant is not None:
                sys.meta_path.insert(0, mutant)
            import pytest

            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
        finally:
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return "passed" if status == 0 else "failed"
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return "too slow"


def measure(target: str, sample: int, seed: int, seconds: float) -> dict[str, Any]:
    """Mutants of a target, how many its tests notice, and those that survive."""
    places, tests = TARGETS[target]
    own = [SOURCE / "viewgap" / place for place in places]
    files = [file for path in own for file in ([path] if path.is_file() else path.rglob("*.py"))]
    files.sort()
    everything = [(path, *one) for path in files for one in mutants(path)]
    chance = random.Random(f"{seed} {target}")
    drawn = chance.sample(everything, min(sample, len(everything)))
    begin = time.monotonic()
    if run_tests(tests, None, 600.0) != "passed":
        raise SystemExit(f"the tests of {target} fail without any mutant: {tests}")
    limit = 30.0 + 5 * (time.monotonic() - begin)
    found: dict[str, list[str]] = {"passed": [], "failed": [], "too slow": []}
    for path, number, which, words in drawn:
        if time.monotonic() - begin > seconds:
            break
        result = run_tests(tests, Mutant(path, mutated(path, number, which)), limit)
        found[result].append(f"{path.relative_to(SOURCE)}, {words}")
    tried = sum(map(len, found.values()))
    return {
        "target": target,
        "mutants": len(everything),
        "tried": tried,
        "noticed": tried - len(found["passed"]),
        "of them too slow": len(found["too slow"]),
        "share": round(1 - len(found["passed"]) / max(1, tried), 3),
        "survivors": sorted(found["passed"]),
    }


def main() -> None:
    """Print the figures; the exit code is 1 where fewer than four fifths are noticed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--sample", type=int, default=60, help="mutants of a target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="at most, for each target")
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    arguments = parser.parse_args()
    sys.path[:0] = [str(SOURCE), str(ROOT)]
    os.chdir(ROOT)
    import_for_all()
    lines = []
    for target in arguments.targets:
        lines.append(measure(target, arguments.sample, arguments.seed, arguments.seconds))
        print(json.dumps(lines[-1], indent=1), flush=True)
        if arguments.out:
            kept = {"arguments": sys.argv[1:], "targets": lines}
            arguments.out.write_text(json.dumps(kept, indent=1) + "\n")
    sys.exit(any(line["share"] < 0.8 for line in lines))


if __name__ == "__main__":
    main()
