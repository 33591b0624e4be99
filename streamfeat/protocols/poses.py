"""Paper C's protocol of rendered poses in small: orl-poses, orl-poses-draws, orl-poses-shots.

The paper renders each subject at 17 x 9 poses from one model; templates, SVMs and pairs have every pose of theirs. Here
the first picture of each of ORL's subjects is turned (`heads`) by -40 to 40 degrees of yaw and -20 to 20 of pitch, ten
degrees a step: 45 poses. The subjects are divided as in orl-verify: the poses of 20 are the orbits, those of 10 teach
the SVMs, those of 10 are tested, on all pairs.

    orl-poses         20 splits
    orl-poses-draws   the people of split 0 tested each time, the others divided anew
    orl-poses-shots   as orl-poses, but of the tested all ten pictures are turned, to nine poses each: of the pairs of
                      one person 91 in 100 are of two pictures, which differ by more than a pose

Rows are less the mean of T_G and of unit length: theorem 3.1 asks for a group that keeps lengths, which turns of a
picture do not. Besides what orl-mmif has there are columns of the kernel features alone, which need no SVM; of orbits
of fewer people; and of SVMs that see their people in one pose, the front. This is the problem that the paper sets
itself: the labelled were never seen turned, so that SVMs cannot learn turns, and what is invariant comes from orbits.

Verification rate at 0.1 and 1 % FAR, method raw of preset faces (48 x 40 pixels), K = 100 where nothing is said:

                                     orl-poses: 0.1 %        1 %        -draws: 0.1 %        1 %
    cosine                              .057 ±.009    .106 ±.013        .051 ±.000    .119 ±.000
    centred cosine                      .050 ±.010    .114 ±.012        .064 ±.003    .139 ±.002
    whitened from T_G                   .070 ±.020    .176 ±.031        .066 ±.006    .175 ±.011
    orbit kernel alone, max rbf         .163 ±.040    .326 ±.054        .197 ±.020    .362 ±.018
    MMIF max rbf                        .203 ±.057    .404 ±.072        .181 ±.049    .383 ±.063
      K = 50                            .196 ±.056    .395 ±.073        .177 ±.047    .378 ±.066
      K = 500                           .209 ±.064    .410 ±.073        .186 ±.048    .392 ±.062
      5 against the rest                .199 ±.063    .401 ±.070        .178 ±.061    .385 ±.065
      10 orbits                         .133 ±.035    .296 ±.042        .155 ±.035    .327 ±.051
      5 orbits                          .047 ±.019    .170 ±.038        .051 ±.016    .171 ±.025
      X in one pose                     .105 ±.028    .266 ±.050        .120 ±.022    .300 ±.024
    MMIF mean rbf                       .121 ±.043    .279 ±.062        .099 ±.019    .266 ±.030
    MMIF max linear                     .132 ±.037    .298 ±.043        .139 ±.019    .318 ±.024
    MMIF mean linear                    .100 ±.021    .228 ±.040        .083 ±.019    .202 ±.020
    SVMs alone                          .142 ±.032    .282 ±.043        .141 ±.019    .274 ±.024
      X in one pose                     .031 ±.008    .100 ±.017        .041 ±.009    .115 ±.016
    MMIF max rbf over SVMs alone       +.061 ±.056   +.122 ±.074       +.040 ±.043   +.109 ±.056
    MMIF max rbf over centred cosine   +.153 ±.052   +.290 ±.072       +.117 ±.048   +.243 ±.062

So the paper's claims hold here: MMIF is above the pixels and above its SVMs without the invariant kernel, the more so
where these see one pose; max pooling is above mean pooling; K = 500 is worth little more than K = 100, and constrained
subsets as much as free ones. It takes orbits enough: of 10 people MMIF is level with its ablation, of 5 below it. The
paper has 125.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.learn.orbitkernel import OrbitKernel
from streamfeat.learn.subsetsvm import SubsetSVMs
from streamfeat.learn.verification import unit_rows
from streamfeat.protocols.faces import Faces, Split, Views, cosines, plan_orl
from streamfeat.protocols.heads import turn, turned
from streamfeat.protocols.maxmargin import COST, SIGMA, SIZES, SUBSETS, K, draw_others
from streamfeat.protocols.plan import Rows, Source
from streamfeat.signals.signal import Signal

POSES = tuple((float(yaw), float(pitch)) for pitch in range(-20, 21, 10) for yaw in range(-40, 41, 10))
"""Yaw and pitch in degrees; the one in the middle is the picture itself."""

COST_ALONE = 1.0
"""C of the SVMs on the rows.

It, and the width and C of MMIF (`maxmargin.SIGMA`, `maxmargin.COST`), are the best, each for itself, of widths .3 to
1.4 and C of 1 and 10 (of the rows .1, 1, 10) on divisions of the 30 people whom split 0 does not test: 14, 8 and 8,
seeds 100 to 105; a width of .6 is as good there. Divisions of all 40 with the same seeds said the same, and that rows
are to be of unit length. With max pooling the width does not change which pose is found, but how much more near orbits
count than far ones.
"""

FRONT = POSES.index((0.0, 0.0))
CORNERS = tuple(i for i, (yaw, pitch) in enumerate(POSES) if abs(yaw) in (0, 40) and abs(pitch) in (0, 20))
"""The nine poses of the middle and the rim."""

KERNELS: dict[str, dict[str, Any]] = {
    "max rbf": {"pooling": "max", "kernel": "rbf", "sigma": SIGMA},
    "mean rbf": {"pooling": "mean", "kernel": "rbf", "sigma": SIGMA},
    "max linear": {"pooling": "max"},
    "mean linear": {"pooling": "mean"},
}
"""l(x) by name; MMIF of the first in all sizes and variants."""

N_ORBITS = (5, 10)
"""Orbits of fewer people, the first of T_G."""

GAINS = {
    "gain of MMIF max over SVMs alone": (f"MMIF max rbf, K = {K}", f"SVMs alone, K = {K}"),
    "gain of MMIF max over MMIF mean": (f"MMIF max rbf, K = {K}", "MMIF mean rbf"),
    "gain of MMIF max over centred cosine": (f"MMIF max rbf, K = {K}", "centred cosine"),
}
RENDERED = "poses are rendered on an ellipsoid from one picture of each subject, not from a model of the head"
SHOTS = "of the tested all pictures are turned; all are taken for seen from the front, which some are not"


def plan_poses(source: Source) -> Faces:
    """The first picture of each subject at every pose; the splits of orl-verify."""
    return _posed(source, "first")


def plan_pose_draws(source: Source) -> Faces:
    """The people of split 0 tested, the others divided anew into T_G and X."""
    return draw_others(plan_poses(source))


def plan_pose_shots(source: Source) -> Faces:
    """The tested with all their pictures, at the nine poses of the middle and the rim."""
    return _posed(source, "all")


def _posed(source: Source, tested: Literal["first", "all"]) -> Faces:
    if source.given is not None:
        raise ConfigError(f"the poses are those of ORL's own subjects; leave --data out, got {source.given}")
    faces = plan_orl(source)
    operators = [turn(faces.read(0).samples.shape, *pose) for pose in POSES]

    def read(row: int) -> Signal:
        picture, pose = divmod(row, len(POSES))
        signal = faces.read(picture)
        yaw, pitch = POSES[pose]
        name = f"{signal.name}, yaw {yaw:g}, pitch {pitch:g}"
        return Signal("image", turned(signal.samples, operators[pose]), name=name)

    def at(rows: Rows, poses: Sequence[int]) -> Rows:
        return (rows[:, None] * len(POSES) + np.array(poses, np.intp)).ravel()

    everything = range(len(POSES))
    splits = []
    for split in faces.splits:
        taught, more, asked = (_firsts(faces.subjects, rows) for rows in (split.taught, split.more, split.asked))
        seen = at(asked, everything) if tested == "first" else at(split.asked, CORNERS)
        splits.append(Split(at(taught, everything), at(more, everything), seen, split.seed))
    subjects = [subject for subject in faces.subjects for _ in POSES]
    notes = (*faces.notes, SUBSETS, RENDERED, *((SHOTS,) if tested == "all" else ()))
    return Faces(subjects, read, tuple(splits), notes, descriptors, GAINS)


def _firsts(subjects: Sequence[str], rows: Rows) -> Rows:
    """The first of each subject's rows."""
    _, places = np.unique([subjects[row] for row in rows], return_index=True)
    return rows[np.sort(places)]


@dataclass(frozen=True)
class Taught:
    """Rows of X with who they show, and of the tested; what SVMs on the former make of the latter."""

    X: NDArray[Any]
    names: NDArray[Any]
    asked: NDArray[Any]
    C: float
    seed: int

    def features(self, n_svms: int, **rule: Any) -> NDArray[Any]:
        """The tested (n, n_svms)."""
        return SubsetSVMs(n_svms, C=self.C, seed=self.seed, **rule).fit(self.X, self.names).transform(self.asked)

    def of_orbits(self, n: int) -> Taught:
        """The same of the first n orbits."""
        return replace(self, X=self.X[:, :n], asked=self.asked[:, :n])

    def in_one_pose(self) -> Taught:
        """The same with one picture of each of X, not turned."""
        chosen = slice(FRONT, None, len(POSES))
        return replace(self, X=self.X[chosen], names=self.names[chosen])

    def variants(self, name: str) -> dict[str, NDArray[Any]]:
        """Of all sizes, of the other rule for subsets, and of SVMs that see no pose."""
        most = self.features(max(SIZES))
        return {
            **{f"{name}, K = {k}": most[:, :k] for k in SIZES},
            f"{name}, 5 against the rest": self.features(K, n_positive=5, n_classes=None),
            f"{name}, X in one pose": self.in_one_pose().features(K),
        }


def descriptors(views: Views) -> dict[str, NDArray[Any]]:
    """Cosines and whitening, kernel features, MMIF, and its SVMs alone."""
    mean = views.taught.mean(axis=0, dtype=np.float64)
    T, X, asked = (unit_rows(rows - mean) for rows in (views.taught, views.more, views.asked))
    alone = Taught(X, np.asarray(views.more_names), asked, COST_ALONE, views.seed)
    lifted = {}
    for name, settings in KERNELS.items():
        kernel = OrbitKernel(**settings).fit(T, views.taught_names)
        lifted[name] = replace(alone, X=kernel.transform(X), asked=kernel.transform(asked), C=COST)
    first, *others = lifted
    return {
        **cosines(views),
        f"orbit kernel alone, {first}": lifted[first].asked,
        **lifted[first].variants(f"MMIF {first}"),
        **{f"MMIF {first}, {n} orbits": lifted[first].of_orbits(n).features(K) for n in N_ORBITS},
        **{f"MMIF {name}": lifted[name].features(K) for name in others},
        **alone.variants("SVMs alone"),
    }
