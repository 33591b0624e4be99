"""Paper C's protocols on a user's own copies of its data: mugshots, lfw, ijba. None of them comes with streamfeat.

    mugshots    mugshots/<subject>/<pose>; an eighth of the subjects in T_G, an eighth in X, the rest tested; drawn
    lfw         lfw/<Name>/<Name>_0001.jpg; of the 500 subjects with the most pictures (or half of all, if that is less)
                the first half in T_G, the others in X, all other pictures tested
    ijba        ijba/split1/train_1.csv, verify_metadata_1.csv ..., FILE below ijba; half of the subjects who train in
                T_G, the others in X, and the faces of the other list tested; a split a seed

Columns are those of orl-mmif. Pairs are all pairs of the tested, as in the paper, not LFW's list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.protocols.data import need
from streamfeat.protocols.faces import Faces, Split
from streamfeat.protocols.maxmargin import GAINS, descriptors
from streamfeat.protocols.plan import Rows, Source
from streamfeat.signals.faces import Face, open_subjects, read_ijba

MOST = 500
"""Subjects of LFW that teach."""


def plan_mugshots(source: Source) -> Faces:
    """Subjects divided by chance, as many poses as there are."""
    faces = open_subjects(_folder(source, "mugshots", "a folder for each subject, a file for each pose"))
    people = sorted({face.subject for face in faces})
    eighth = max(2, len(people) // 8)
    splits = []
    for seed in range(source.n_seeds):
        order = np.random.default_rng(seed).permutation(people).tolist()
        taught, more, asked = order[:eighth], order[eighth : 2 * eighth], order[2 * eighth :]
        splits.append(_split(faces, (taught, more, asked), seed))
    return _faces(faces, splits)


def plan_lfw(source: Source) -> Faces:
    """Subjects with the most pictures teach; a seed is one of the SVMs' subsets."""
    faces = open_subjects(_folder(source, "lfw", "LFW, a folder for each person"))
    by_number = sorted(Counter(face.subject for face in faces).items(), key=lambda item: (-item[1], item[0]))
    order = [name for name, _ in by_number]
    n_taught = min(MOST, len(order) // 2)
    parts = order[: n_taught // 2], order[n_taught // 2 : n_taught], order[n_taught:]
    return _faces(faces, [_split(faces, parts, seed) for seed in range(source.n_seeds)])


def plan_ijba(source: Source) -> Faces:
    """Each split's own lists."""
    root = _folder(source, "ijba", "IJB-A, its lists in split1, split2 ...")
    faces: list[Face] = []
    splits = []
    for seed in range(source.n_seeds):
        folder = need(root, f"split{seed + 1}", "a split of IJB-A; --seeds says how many there are")
        train, asked = (_listed(folder, name, seed, root) for name in ("train", "verify_metadata"))
        people = np.random.default_rng(seed).permutation(sorted({face.subject for face in train}))
        first = set(people[: len(people) // 2].tolist())
        number = np.arange(len(faces), len(faces) + len(train))
        taught = np.array([face.subject in first for face in train])
        faces += [*train, *asked]
        splits.append(Split(number[taught], number[~taught], number[-1] + 1 + np.arange(len(asked)), seed))
    return _faces(faces, splits)


def _folder(source: Source, name: str, what: str) -> Path:
    """Where the data lie; there are no others to test."""
    if source.given is not None:
        raise ConfigError(f"{name} tests its own subjects; leave --data out, got {source.given}")
    return need(source.data, name, what)


def _listed(folder: Path, name: str, seed: int, root: Path) -> tuple[Face, ...]:
    faces = read_ijba(need(folder, f"{name}_{seed + 1}.csv", "a list of IJB-A"), root)
    if not faces:
        raise InvalidArgument(f"{folder}: {name}_{seed + 1}.csv lists no face")
    return faces


def _split(faces: Sequence[Face], parts: Sequence[Sequence[str]], seed: int) -> Split:
    """The rows of the subjects of each part."""
    subject = np.array([face.subject for face in faces])
    taught, more, asked = (_rows(subject, part) for part in parts)
    return Split(taught, more, asked, seed)


def _rows(subject: np.ndarray[tuple[int], np.dtype[np.str_]], part: Sequence[str]) -> Rows:
    if len(part) < 2:
        raise InvalidArgument(
            f"T_G, X and the tested need two subjects each, got {len(np.unique(subject))} subjects in all; give more"
        )
    return np.flatnonzero(np.isin(subject, part))


def _faces(faces: Sequence[Face], splits: Sequence[Split]) -> Faces:
    return Faces(
        [face.subject for face in faces],
        lambda row: faces[row].read(),
        tuple(splits),
        ("bank, mean, whitening and SVMs from other subjects than those who are tested",),
        descriptors,
        GAINS,
    )
