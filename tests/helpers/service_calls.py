"""A small model with named columns, as tables and as JSON; calls of an application by ASGI."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import numpy as np
import pandas as pd

LABELS = ["high", "<script>"]
JSON = {"Content-Type": "application/json"}


def frames(n: int = 60, seed: int = 0) -> dict[str, pd.DataFrame]:
    draw = np.random.default_rng(seed)
    ids = [f"s{i}" for i in range(n)]
    return {
        "genes": pd.DataFrame(draw.normal(size=(n, 3)), ids, ["TP53", "MYC", "<b>"]),
        "proteins": pd.DataFrame(draw.normal(size=(n, 2)), ids, ["p1", "p2"]),
    }


def labels(X: dict[str, pd.DataFrame]) -> pd.DataFrame:
    high = X["genes"]["TP53"] > 0
    return pd.DataFrame({LABELS[0]: high, LABELS[1]: X["proteins"]["p1"] > 0.5}).astype(float)


def calls(app: Any, requests: list[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
    async def send() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            sent = (client.request(method, path, **more) for method, path, more in requests)
            return await asyncio.gather(*sent)

    return asyncio.run(send())


def call(app: Any, method: str, path: str, **request: Any) -> httpx.Response:
    return calls(app, [(method, path, request)])[0]


def row(X: dict[str, pd.DataFrame], i: int, **views: Any) -> dict[str, Any]:
    own = {name: table.iloc[i].to_dict() for name, table in X.items()}
    return {"id": f"s{i}", "views": own | views}


def post(app: Any, value: Any, path: str = "/predict") -> httpx.Response:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return call(app, "POST", path, content=content, headers=JSON)
