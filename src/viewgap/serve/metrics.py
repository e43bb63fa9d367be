"""Counts of a service in the text format of Prometheus."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TEXT = "text/plain; version=0.0.4; charset=utf-8"


class ServiceMetrics:
    """Requests, seconds, rows and batches since the start; any thread may count.

    Examples
    --------
    >>> metrics = ServiceMetrics()
    >>> metrics.count_request("/predict", 200, 0.004)
    >>> 'viewgap_requests_total{path="/predict",status="200"} 1' in metrics.text({}, {})
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, float] = {}
        self._buckets: dict[str, list[int]] = {}
        self._batches = self._jobs = self._rows = 0

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """One answered request; `path` as the route has it, so that there are few of them."""
        with self._lock:
            self._requests[path, status] += 1
            self._seconds[path] = self._seconds.get(path, 0.0) + seconds
            counts = self._buckets.setdefault(path, [0] * len(_BUCKETS))
            for i, bound in enumerate(_BUCKETS):
                counts[i] += seconds <= bound

    def count_batch(self, n_requests: int, n_rows: int) -> None:
        """One batch that a model has begun with."""
        with self._lock:
            self._batches += 1
            self._jobs += n_requests
            self._rows += n_rows

    def text(self, waiting: Mapping[str, int], versions: Mapping[str, int]) -> str:
        """All counts, with the requests that wait now and the versions, both by model."""
        with self._lock:
            lines = [
                *_family("requests_total", "counter", "Answered requests.", self._request_lines()),
                *_family("request_seconds", "histogram", "From the first byte of a request to its "
                         "answer.", self._second_lines()),
                *_family("batches_total", "counter", "Calls of a model.", [f" {self._batches}"]),
                *_family("batched_requests_total", "counter", "Requests in these calls.",
                         [f" {self._jobs}"]),
                *_family("rows_total", "counter", "Rows in these calls.", [f" {self._rows}"]),
            ]  # fmt: skip
        lines += _family("queue_length", "gauge", "Waiting requests.", _by_model(waiting))
        lines += _family("model_version", "gauge", "Loads of a model.", _by_model(versions))
        return "\n".join(lines) + "\n"

    def _request_lines(self) -> list[str]:
        return [
            f'{{path="{_quoted(path)}",status="{status}"}} {count}'
            for (path, status), count in sorted(self._requests.items())
        ]

    def _second_lines(self) -> list[str]:
        lines = []
        for path, counts in sorted(self._buckets.items()):
            total = sum(n for (own, _), n in self._requests.items() if own == path)
            own = f'path="{_quoted(path)}"'
            lines += [
                f'_bucket{{{own},le="{bound}"}} {n}'
                for bound, n in zip(_BUCKETS, counts, strict=True)
            ]
            lines += [f'_bucket{{{own},le="+Inf"}} {total}']
            lines += [f"_sum{{{own}}} {self._seconds[path]:.6f}", f"_count{{{own}}} {total}"]
        return lines


def _family(name: str, kind: str, words: str, lines: Iterable[str]) -> list[str]:
    head = [f"# HELP viewgap_{name} {words}", f"# TYPE viewgap_{name} {kind}"]
    return head + [f"viewgap_{name}{line}" for line in lines]


def _by_model(numbers: Mapping[str, int]) -> list[str]:
    return [f'{{model="{_quoted(name)}"}} {number}' for name, number in sorted(numbers.items())]


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
