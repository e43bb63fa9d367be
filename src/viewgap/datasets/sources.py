"""Where data sets come from: what can be downloaded and verified, and what is got by hand."""

from __future__ import annotations

from dataclasses import dataclass

from viewgap.datasets.checksums import Checksum

MAX_BYTES = 100 * 2**20
"""Most bytes of a download: the largest file that the host of the repositories accepts."""


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
        f"{name}_six_view.mat and its fold files into {{folder}}/; viewgap datasets then compares "
        "its statistics with Table 1"
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
        "made from public files: the emotions set of the Mulan collection, 593 songs. Save one "
        ".npz into {folder}/ with the arrays view0 (593, 8; rhythm), view1 (593, 64; timbre), "
        "labels (593, 6) of 0 and 1, and optionally label_names"
    ),
}
"""Sets that are known by name but not part of this package."""
