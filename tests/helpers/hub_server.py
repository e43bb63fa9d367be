"""The Hugging Face Hub on this machine: the requests that `huggingface_hub` makes for a model.

Written from what the client sends. Weights go and come as LFS files do: their own upload, and a
redirection when they are downloaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from web_server import Quiet, serve

TOKEN = "hf_of_a_test"
_RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


@dataclass
class Hub:
    """What the server keeps, and what it has been asked.

    `storage` is where large files lie: another server, as for the real one. `commits` has the files
    of every commit of a repository, the newest last, by their hash. `truncate` bytes are left out
    at the end of large files, `busy` answers 503 throughout, and `leaked` tells that the token came
    along to the storage.
    """

    address: str = ""
    storage: str = ""
    commits: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    truncate: int = 0
    busy: bool = False
    leaked: bool = False

    def files(self, repo: str, commit: str | None = None) -> dict[str, bytes]:
        """The files of a commit; of the newest one without it."""
        own = self.commits[repo]
        return own[commit or list(own)[-1]]

    def damage_weights(self) -> None:
        """Flip the last bit of every large file."""
        for name, data in self.blobs.items():
            self.blobs[name] = data[:-1] + bytes([data[-1] ^ 1])

    def commit_of(self, repo: str, revision: str) -> str | None:
        """The hash that a revision stands for."""
        own = self.commits.get(repo, {})
        return (
            list(own)[-1] if revision == "main" and own else revision if revision in own else None
        )


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """Yield a hub whose `address` is that of a running server."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with serve(handler) as address, serve(handler) as storage:
        hub.address, hub.storage = address, storage
        yield hub


def _is_large(path: str) -> bool:
    return path.endswith(".safetensors")


class _Handler(Quiet):
    hub: Hub

    # ------------------------------------------------------------------ answers

    def _send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, code: str, message: str) -> None:
        body = json.dumps({"error": message}).encode()
        self._send(status, body, {"X-Error-Code": code, "X-Error-Message": message})

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    # ------------------------------------------------------------------ requests

    def _begin(self) -> tuple[str, bytes] | None:
        body = self._body()
        path = self.path.partition("?")[0].replace("%2F", "/")
        self.hub.requests.append(f"{self.command} {path}")
        if path.startswith("/lfs/") and "Authorization" in self.headers and self.command == "GET":
            self.hub.leaked = True
        if self.hub.busy:
            self._send(503)
            return None
        return path, body

    def do_POST(self) -> None:
        begun = self._begin()
        if begun is None:
            return
        path, body = begun
        if path != "/api/validate-yaml" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._refuse(401, "", "Invalid username or password.")
        elif path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif path == "/api/repos/create":
            asked = json.loads(body)
            repo = f"{asked['organization']}/{asked['name']}"
            self.hub.commits.setdefault(repo, {})
            self._json({"url": f"{self.hub.address}/{repo}"})
        elif "/preupload/" in path:
            self._json({"files": [self._mode(own["path"]) for own in json.loads(body)["files"]]})
        elif path.endswith("/info/lfs/objects/batch"):
            self._json({"objects": [self._upload(own) for own in json.loads(body)["objects"]]})
        elif "/commit/" in path:
            self._commit(path.removeprefix("/api/models/").partition("/commit/")[0], body)
        else:
            self._send(404)

    def do_PUT(self) -> None:
        begun = self._begin()
        if begun is not None:
            path, body = begun
            self.hub.blobs[path.rpartition("/")[2]] = body
            self._send(200)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        begun = self._begin()
        if begun is None:
            return
        path, _ = begun
        if path.startswith("/api/models/"):
            self._model(path.removeprefix("/api/models/"))
        elif path.startswith("/lfs/"):
            data = self.hub.blobs[path.removeprefix("/lfs/")]
            kept = data[: len(data) - self.hub.truncate]
            self._send(200, kept, {"ETag": '"blob"'})
        elif found := _RESOLVE.fullmatch(path):
            self._file(*found.groups())
        else:
            self._send(404)

    # ------------------------------------------------------------------ parts of them

    def _mode(self, path: str) -> dict[str, Any]:
        mode = "lfs" if _is_large(path) else "regular"
        return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": None}

    def _upload(self, asked: dict[str, Any]) -> dict[str, Any]:
        action = {"href": f"{self.hub.storage}/lfs/{asked['oid']}"}
        return {"oid": asked["oid"], "size": asked["size"], "actions": {"upload": action}}

    def _commit(self, repo: str, body: bytes) -> None:
        files: dict[str, bytes] = {}
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                self.hub.messages.append(value["summary"])
            elif entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            else:
                files[value["path"]] = self.hub.blobs[value["oid"]]
        commit = hashlib.sha1(body).hexdigest()  # as git's: forty hexadecimal digits
        self.hub.commits[repo][commit] = files
        url = f"{self.hub.address}/{repo}/commit/{commit}"
        self._json({"commitUrl": url, "commitOid": commit, "success": True})

    def _model(self, rest: str) -> None:
        repo, _, revision = rest.partition("/revision/")
        if repo not in self.hub.commits:
            self._refuse(404, "RepoNotFound", "Repository not found")
        elif (commit := self.hub.commit_of(repo, revision or "main")) is None:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            self._json({"id": repo, "modelId": repo, "sha": commit, "siblings": []})

    def _file(self, repo: str, revision: str, name: str) -> None:
        commit = self.hub.commit_of(repo, revision)
        data = None if commit is None else self.hub.files(repo, commit).get(name)
        if data is None:
            self._refuse(404, "EntryNotFound" if commit else "RevisionNotFound", "not found")
            return
        headers = {"X-Repo-Commit": str(commit), "ETag": f'"{hashlib.sha1(data).hexdigest()}"'}
        if not _is_large(name):
            self._send(200, data, headers)
            return
        digest = hashlib.sha256(data).hexdigest()
        headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(data))}
        self._send(302, b"", headers | {"Location": f"{self.hub.storage}/lfs/{digest}"})
