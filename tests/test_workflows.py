"""The workflows run what there is: the script of CI, and targets of the Makefile."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in (ROOT / ".github" / "workflows").glob("*.yml")
}
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_ci_is_one_script_whose_targets_exist() -> None:
    assert "- run: bash .ci/run\n" in WORKFLOWS["ci"]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    made = re.findall(r"^make(?: -j 2 -O)? (.*)$", script, re.MULTILINE)
    assert made
    assert set(" ".join(made).split()) <= TARGETS


def test_other_workflows_make_targets_that_exist() -> None:
    lanes = re.search(r"lane: \[(.*)\]", WORKFLOWS["slow"])
    assert lanes
    assert set(lanes[1].split(", ")) <= TARGETS
    assert re.findall(r"run: make ([a-z-]+)", WORKFLOWS["lowest"]) == ["test-lowest"]


def test_nobody_waits_for_ever_and_nobody_may_write() -> None:
    for text in WORKFLOWS.values():
        assert re.search(r"timeout-minutes: \d+", text)
        assert "contents: read" in text
