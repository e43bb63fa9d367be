"""No source file unpickles, evaluates, starts a shell or trusts what it should verify."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewgap

ROOT = Path(viewgap.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

ENDS = ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")  # execl, spawnl, ...
FORBIDDEN_MODULES = {
    *("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve"),
    *("yaml", "imp", "runpy", "code", "codeop", "pty", "telnetlib"),
}
# Full names, however they were imported; a name stands for all below it, too.
FORBIDDEN_NAMES = {
    *("eval", "exec", "compile", "__import__", "breakpoint", "builtins", "ast.literal_eval"),
    *("torch.load", "torch.save", "torch.jit", "torch.hub", "torch.package", "torch.serialization"),
    *("joblib.load", "joblib.dump", "numpy.load", "numpy.save", "numpy.fromregex"),
    *("pandas.read_pickle", "pandas.read_hdf", "pandas.HDFStore", "pandas.eval"),
    # A small crafted file can crash it; `.mat` files have a reader of our own.
    *("scipy.io.loadmat", "scipy.io.matlab"),
    *("os.system", "os.popen", "os.startfile", "tempfile.mktemp", "shutil.unpack_archive"),
    *("subprocess.getoutput", "subprocess.getstatusoutput", "subprocess.Popen"),
    *(f"os.exec{end}" for end in ENDS),
    *(f"os.spawn{end}" for end in ENDS),
}
FORBIDDEN_METHODS = {"read_pickle", "to_pickle", "extractall", "__reduce__", "__reduce_ex__"}
# Who starts another program, by a list of words: git, to note the commit of a run, and sbatch.
MAY_START_PROGRAMS = {"bench/run/provenance.py", "bench/run/slurm.py"}


def offences(tree: ast.AST) -> Iterator[str]:
    """What a file does that it must not, as names."""
    full_names = dict(_imports(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (name for name in _modules(node) if _is_below(name, FORBIDDEN_MODULES))
        elif isinstance(node, ast.Name | ast.Attribute):
            name = _full_name(node, full_names)
            if _is_below(name, FORBIDDEN_NAMES):
                yield name
            elif isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_METHODS:
                yield node.attr
        elif isinstance(node, ast.Call):
            yield from _bad_keywords(node)


def programs(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that start another program."""
    full_names = dict(_imports(tree))
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if _full_name(call.func, full_names).startswith("subprocess"):
            yield call


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(name in this file, full name) of everything that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                own = alias.asname or alias.name.split(".")[0]
                yield own, alias.name if alias.asname else own
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names]


def _full_name(node: ast.AST, full_names: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_full_name(node.value, full_names)}.{node.attr}"
    return full_names.get(node.id, node.id) if isinstance(node, ast.Name) else "?"


def _is_below(name: str, parents: set[str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:length]) in parents for length in range(1, len(parts) + 1))


def _bad_keywords(call: ast.Call) -> Iterator[str]:
    for keyword in call.keywords:
        value = ast.unparse(keyword.value)
        unsafe = {"allow_pickle": value != "False", "weights_only": True, "shell": True}
        unsafe |= {"verify": value == "False", "autoescape": value == "False"}
        if unsafe.get(keyword.arg or "", False):
            yield f"{keyword.arg}={value}"


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_no_source_file_can_execute_what_somebody_else_wrote() -> None:
    found = {str(path.relative_to(ROOT)): list(offences(parse(path))) for path in FILES}
    assert len(found) > 300
    assert {path: names for path, names in found.items() if names} == {}


def test_only_git_and_sbatch_are_started() -> None:
    asking = [path for path in FILES if "subprocess" in path.read_text(encoding="utf-8")]
    found = {path: list(programs(parse(path))) for path in asking}
    calls = {str(path.relative_to(ROOT)): found[path] for path in asking if found[path]}
    assert set(calls) == MAY_START_PROGRAMS
    for call in (call for path in calls.values() for call in path):
        assert isinstance(call.args[0], ast.List), "a list of words, never one line for a shell"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import pickle", "pickle"),
        ("from yaml import load", "yaml.load"),
        ("from torch import load as fetch\nfetch(path)", "torch.load"),
        ("import torch as t\nt.load(path)", "torch.load"),
        ("import torch\ntorch.jit.load(path)", "torch.jit"),
        ("import numpy as np\nread = np.load", "numpy.load"),
        ("import scipy.io\nscipy.io.loadmat(path)", "scipy.io.loadmat"),
        ("eval(text)", "eval"),
        ("run = {'code': exec}", "exec"),
        ("from builtins import eval as parse\nparse(text)", "builtins.eval"),
        ("import os\nos.system(text)", "os.system"),
        ("import subprocess\nsubprocess.run(text, shell=True)", "shell=True"),
        ("read_array(file, allow_pickle=flag)", "allow_pickle=flag"),
        ("session.get(url, verify=False)", "verify=False"),
        ("archive.extractall(folder)", "extractall"),
    ],
)
def test_the_check_sees(code: str, expected: str) -> None:
    assert expected in list(offences(ast.parse(code)))


def test_the_check_leaves_the_harmless_alone() -> None:
    lines = (
        "import re, numpy as np",
        "re.compile('a')",
        "model.eval()",
        "read_array(file, allow_pickle=False)",
        "describe(verify=True)",
    )
    assert list(offences(ast.parse("\n".join(lines)))) == []
