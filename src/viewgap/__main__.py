"""`python -m viewgap` is `viewgap`."""

from __future__ import annotations

from viewgap.cli import main

main()
