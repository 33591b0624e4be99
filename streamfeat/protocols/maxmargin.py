"""MMIF on faces beside what it has to beat: orl-mmif, orl-mmif-draws.

Orbits are the subjects of T_G, SVMs are taught by those of X. On the same rows stand cosines, whitening inside orbits
(which needs no SVM) and, as the paper's reviewers asked, the same SVMs on the rows themselves. Rows are less the mean
of T_G, as of the centred cosine: as they are, all faces lie in one direction, and MMIF of them is worse. C is
liblinear's own, 1.

orl-mmif has the splits of orl-verify: tested people, templates, things and subsets are all drawn anew. orl-mmif-draws
tests the people of split 0 each time and draws the others, so that its deviation is that of template and subset draws.

Verification rate at 1 % FAR, preset faces, its features and those of method raw (48 x 40 pixels), K = 100:

                              orl-mmif: raw    preset          orl-mmif-draws: raw    preset
    centred cosine                .652 ±.089   .747 ±.088             .815 ±.008   .797 ±.012
    whitened from T_G             .736 ±.082   .935 ±.056             .807 ±.045   .912 ±.019
    MMIF max, linear              .492 ±.115   .474 ±.068             .737 ±.070   .573 ±.069
    MMIF mean, linear             .504 ±.121   .491 ±.083             .722 ±.041   .623 ±.037
    MMIF max, rbf                 .473 ±.129   .381 ±.068             .617 ±.037   .458 ±.048
    SVMs alone                    .624 ±.103   .671 ±.091             .757 ±.048   .751 ±.052
    MMIF max over SVMs alone     -.132 ±.108  -.197 ±.083            -.020 ±.079  -.178 ±.079

So the paper's claims do not hold here: MMIF is below its own SVMs without the invariant kernel, and below the plain
cosine; max pooling is no better than mean pooling. K = 500 is worth no more than K = 50, as the paper says of 100. It
is the orbits, not their number nor the recipe: at rendered poses (`poses`) the claims hold for as many people, and what
is best there, unit rows and an RBF of width .5, has .496 ±.118 on these splits (pixels), below the cosine too. Ten
pictures that differ in light, place and look are no orbit of a group. Where an orbit is a whole group MMIF does what it
says: tests/test_mmif.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.learn.mmif import MMIF
from streamfeat.learn.verification import unit_rows
from streamfeat.protocols.faces import Faces, Split, Views, cosines, plan_orl
from streamfeat.protocols.plan import Source

SIZES = (50, 100, 200, 500)
"""K; the SVMs of a smaller one are among those of a larger."""

K = 100
"""Where nothing else is said."""

NAMES = {"MMIF max linear": "max", "SVMs alone": "none"}
"""Of all sizes, and their pooling."""

VARIANTS: dict[str, dict[str, Any]] = {
    "MMIF mean linear": {"pooling": "mean"},
    "MMIF cdf linear": {"pooling": "cdf"},
    "MMIF mean rbf": {"pooling": "mean", "kernel": "rbf"},
    "MMIF max rbf": {"pooling": "max", "kernel": "rbf"},
    "MMIF max linear, 5 against the rest": {"pooling": "max", "n_positive": 5, "n_classes": None},
    "SVMs alone, 5 against the rest": {"pooling": "none", "n_positive": 5, "n_classes": None},
}
"""Of one size."""

UNIT = "MMIF max rbf of unit rows"
SIGMA, COST = 0.5, 10.0
"""Its width and C, as of orl-poses, where they were chosen."""

GAINS = {
    "gain of MMIF max over SVMs alone": (f"MMIF max linear, K = {K}", f"SVMs alone, K = {K}"),
    "gain of MMIF max over MMIF mean": (f"MMIF max linear, K = {K}", "MMIF mean linear"),
    "gain of MMIF max over centred cosine": (f"MMIF max linear, K = {K}", "centred cosine"),
}
SUBSETS = "X has 10 subjects: 120 subsets of three positive or 252 of five, so of K = 500 SVMs many come again"


def plan_splits(source: Source) -> Faces:
    """The splits of orl-verify."""
    faces = plan_orl(source)
    return replace(faces, notes=(*faces.notes, SUBSETS), descriptors=descriptors, gains=GAINS)


def plan_draws(source: Source) -> Faces:
    """The people of split 0 tested, the others divided anew into T_G and X."""
    return draw_others(plan_splits(source))


def draw_others(faces: Faces) -> Faces:
    """The tested of split 0 in every split; who is in T_G and who in X is drawn from the other subjects."""
    first = faces.splits[0]
    others = np.concatenate([first.taught, first.more])
    subject = np.array([faces.subjects[row] for row in others])
    people, n_taught = np.unique(subject), len(np.unique(subject[: len(first.taught)]))
    splits = []
    for split in faces.splits:
        order = np.random.default_rng(split.seed).permutation(people)
        taught = np.isin(subject, order[:n_taught])
        splits.append(Split(others[taught], others[~taught], first.asked, split.seed))
    return replace(faces, splits=tuple(splits))


def descriptors(views: Views) -> dict[str, NDArray[Any]]:
    """Cosines and whitening, MMIF, and its SVMs alone."""
    mean = views.taught.mean(axis=0, dtype=np.float64)
    about_mean = [X - mean for X in (views.taught, views.more, views.asked)]

    def features(rows: Sequence[NDArray[Any]], n_svms: int, **settings: Any) -> NDArray[Any]:
        taught, more, asked = rows
        mmif = MMIF(n_svms, seed=views.seed, **settings)
        mmif.fit(more, views.more_names, templates=taught, orbits=views.taught_names)
        return mmif.transform(asked)

    of_sizes = {name: features(about_mean, max(SIZES), pooling=pooling) for name, pooling in NAMES.items()}
    return {
        **cosines(views),
        **{f"{name}, K = {k}": X[:, :k] for name, X in of_sizes.items() for k in SIZES},
        **{name: features(about_mean, K, **settings) for name, settings in VARIANTS.items()},
        UNIT: features([unit_rows(X) for X in about_mean], K, pooling="max", kernel="rbf", sigma=SIGMA, C=COST),
    }
