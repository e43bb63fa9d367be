"""What is known of data sets that are not part of this package: sizes, files, how to get them."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 100 * 2**20
"""Most bytes of a download: the largest file that the host of the repositories accepts."""

_PIECE = 2**20


@dataclass(frozen=True)
class Published:
    """Size of a benchmark set as published: samples, labels, labels per sample."""

    n: int
    c: int
    cardinality: float


PUBLISHED = {
    "corel5k": Published(4999, 260, 3.396),
    "pascal07": Published(9963, 20, 1.465),
    "espgame": Published(20770, 268, 4.686),
    "iaprtc12": Published(19627, 291, 5.719),
    "mirflickr": Published(25000, 38, 4.716),
}
"""Table 1 of the SCSD paper; all five have the same six views."""

SIX_VIEWS = {"DenseSift": 1000, "DenseHue": 100, "Gist": 512, "Rgb": 4096, "Lab": 4096, "Hsv": 4096}
"""Width of the six views of the benchmark sets, in the order of the paper."""


@dataclass(frozen=True)
class Checksum:
    """What a file must hash to.

    `gitblob` is the SHA-1 of `blob <size>`, a zero byte and the content: what a git repository
    shows as the id of a file is enough to recognise a copy of it.
    """

    kind: str
    digest: str

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


@dataclass(frozen=True)
class RemoteFile:
    """A file with its checksum."""

    name: str
    checksum: Checksum
    max_bytes: int = MAX_BYTES


@dataclass(frozen=True)
class Source:
    """How to get a data set: folders on the web with its files, and advice for doing it by hand.

    `by_hand` is text in which `{folder}` stands for the folder of the set. Sets without `files`
    cannot be downloaded, because nothing could tell a changed file from the right one.
    """

    by_hand: str
    files: tuple[RemoteFile, ...] = ()
    bases: tuple[str, ...] = ()


def _blob(name: str, digest: str) -> RemoteFile:
    return RemoteFile(name, Checksum("gitblob", digest))


_COREL5K = (
    _blob("corel5k_six_view.mat", "a89c2af569311662acb3770a0839fadaa71ab259"),
    _blob(
        "corel5k_six_view_MaskRatios_0.5_LabelMaskRatio_0.5_TraindataRatio_0.7.mat",
        "5de7fab1561268f91b1c26789fabdcacd9b41661",
    ),
)


def _shared_by_the_authors(name: str) -> Source:
    return Source(
        "no source that could be verified: the authors share it in the READMEs of their "
        "repositories (github.com/justsmart/MTD, for one). Put "
        f"{name}_six_view.mat and its fold files into {{folder}}/; viewgap datasets check {name} "
        "then compares it with Table 1"
    )


SOURCES = {
    "corel5k": Source(
        "the authors publish both files in their repositories (github.com/justsmart/DICNet or "
        "github.com/xuy11/SCSD, where their code looks for them in data/corel5k). Put "
        + " and ".join(f"{file.name} (git blob {file.checksum.digest})" for file in _COREL5K)
        + " into {folder}/",
        files=_COREL5K,
        # Not certain: the repositories hold these blobs, and data/corel5k is where their code looks
        # for data by default. Correct it here; what comes is the right file or is refused.
        bases=(
            "https://raw.githubusercontent.com/justsmart/DICNet/HEAD/data/corel5k",
            "https://raw.githubusercontent.com/xuy11/SCSD/HEAD/data/corel5k",
        ),
    ),
    **{
        name: _shared_by_the_authors(name)
        for name in ("pascal07", "espgame", "iaprtc12", "mirflickr")
    },
    "3sources": Source(
        "made from public files: the term counts of the 3sources collection (mlg.ucd.ie/datasets), "
        "416 stories. Save one .npz into {folder}/ with one array (416, terms) per view bbc, "
        "guardian, reuters (or its CSR parts <view>_data, _indices, _indptr, _shape), view_mask "
        "(416, 3) with 1 = observed, labels (416, 6) of 0 and 1, and optionally label_names"
    ),
    "emotions": Source(
        "made from public files: the emotions set of the Mulan collection, 593 songs. Put Mulan's "
        "emotions.arff and emotions.xml into {folder}/, or one .npz with the arrays view0 (593, 8; "
        "rhythm), view1 (593, 64; timbre), labels (593, 6) of 0 and 1, and optionally label_names"
    ),
    **{
        name: Source(
            f"made from public files: {origin}. Put {either}one .npz into {{folder}}/ with the "
            f"arrays view0, view1, ... ({views}), view_names, labels {shape} of 0, 1 and NaN (not "
            "observed), label_names, and view_mask (samples, views) where views are missing"
        )
        for name, either, origin, views, shape in (
            (
                "birds",
                "birds.arff and birds.xml, or ",
                "the birds set of the Mulan collection, 645 recordings",
                "audio spectrum, segments, recorder site",
                "(645, 19)",
            ),
            (
                "scene",
                "scene.arff and scene.xml, or ",
                "the scene set of the Mulan collection, 2,407 pictures",
                "luminance 98, chroma 196",
                "(2407, 6)",
            ),
            (
                "plant",
                "",
                "978 plant proteins by their location in the cell",
                "GO terms, amino acids, pseudo amino acids, dipeptides",
                "(978, 12)",
            ),
            (
                "cll",
                "",
                "254 leukaemia patients of the R packages mofaCLL and BloodCancerMultiOmics2017",
                "two drug screens, bioenergetics",
                "(254, 39)",
            ),
        )
    },
}
"""Sets that are known by name but not part of this package."""
