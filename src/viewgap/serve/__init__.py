"""Saved models as an HTTP service: `create_app` makes the application, `run_server` serves it."""

from __future__ import annotations

from viewgap.serve.application import create_app
from viewgap.serve.server import run_server
from viewgap.serve.settings import ServiceSettings

__all__ = ["ServiceSettings", "create_app", "run_server"]
