"""The README is a landing page: its code runs as it stands, and its first answer is a good one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from viewgap.metrics import average_precision

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_quick_start_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (quick_start,) = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(quick_start, "README.md", "exec"), names)
    truth, probabilities = names["truth"].loc[names["ids"][1::2]], names["probabilities"]
    # Label frequencies alone have 0.77, and the block 0.996: a first look must not mislead.
    assert average_precision(truth, probabilities) > 0.9


def test_links_lead_to_files() -> None:
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).is_file()] == []
