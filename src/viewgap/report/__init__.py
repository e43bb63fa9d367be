"""The picture of a run: one self-contained HTML page.

`story` holds what is told, `charts` turns numbers into geometry, `page` renders the templates;
`experiment` does the same for the records of a whole experiment.
"""

from __future__ import annotations

from viewgap.report.page import render_report
from viewgap.report.story import Example, MethodResult, Story, ViewTrust

__all__ = ["Example", "MethodResult", "Story", "ViewTrust", "render_report"]
