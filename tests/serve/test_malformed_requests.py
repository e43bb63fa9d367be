"""Malformed requests to a real process, few of those of `python -m benchmarks.serve_fuzz` (F70)."""

from __future__ import annotations

import benchmarks.serve_fuzz as fuzz


def test_no_malformed_request_is_an_error_of_the_server() -> None:
    found = fuzz.run(count=250, seed=1)
    assert found["wrong"] == []
    assert found["alive"]
    assert found["statuses"]["400"] > 100
