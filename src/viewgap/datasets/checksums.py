"""Checksums of files: `sha256:<hex>`, or `gitblob:<hex>`, the name git gives to a content."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from viewgap.errors import SettingError

_PIECE = 2**20
_DIGITS = {"sha256": 64, "gitblob": 40}


@dataclass(frozen=True)
class Checksum:
    """What a file must hash to.

    `gitblob` is the SHA-1 of `blob <size>`, a zero byte and the content: what a git repository
    shows as the id of a file is enough to recognise a copy of it.

    Examples:
        >>> str(Checksum.parse("gitblob:E69DE29BB2D1D6434B8B29AE775AD8C2E48C5391"))
        'gitblob:e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """

    kind: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> Checksum:
        """Checksum of a text like `sha256:<64 hex digits>` or `gitblob:<40 hex digits>`."""
        kind, _, digest = text.strip().lower().partition(":")
        hexadecimal = set(digest) <= set("0123456789abcdef")
        if len(digest) != _DIGITS.get(kind) or not hexadecimal:
            raise SettingError(
                f"a checksum is sha256:<64 hex digits> or gitblob:<40 hex digits>, found {text!r}"
            )
        return cls(kind, digest)

    def __str__(self) -> str:
        return f"{self.kind}:{self.digest}"

    def of(self, path: Path) -> Checksum:
        """Checksum of this kind of a file on disk; the file is read in pieces."""
        with path.open("rb") as file:
            if self.kind == "sha256":
                state = hashlib.sha256()
            else:
                # git chose SHA-1; whoever could forge it must first have been in the repository
                state = hashlib.sha1(usedforsecurity=False)
                state.update(b"blob %d\0" % os.fstat(file.fileno()).st_size)
            while piece := file.read(_PIECE):
                state.update(piece)
        return Checksum(self.kind, state.hexdigest())

    def matches(self, path: Path) -> bool:
        """Whether a file on disk has this checksum."""
        return self.of(path) == self
