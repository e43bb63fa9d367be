"""The command line: parses, calls, prints. Heavy imports happen inside the commands.

Exit codes: 0 done, 1 bad data or a run that could not go on, 2 misuse, 3 suspicious data (`check`),
70 a fault of viewgap, 130 interrupted, 143 ended by SIGTERM. Results go to stdout, everything else
to stderr.
"""

from __future__ import annotations

from viewgap.cli.program import app, main, run

__all__ = ["app", "main", "run"]
