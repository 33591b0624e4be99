"""The methods by name: the preset's bank, what it is worth without its group, and peers, with their scaling for RLS.

preset               the bank
plain                the same with the identity alone
raw                  what the preset's front end gives
audio                mfcc, logmel, augment, scattering, minirocket, minirocket-untrimmed
pictures             pixels, rbf, nystroem, augment, hog, kymatio, kymatio-fine, kymatio-front-end
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamfeat.baselines import fit_baseline
from streamfeat.errors import ConfigError
from streamfeat.featuremap import FeatureMap
from streamfeat.learn.rls import RLS
from streamfeat.protocols import pixels, sounds
from streamfeat.protocols.fitted import Fitted, Task


@dataclass(frozen=True)
class Method:
    """How features are made, and how their columns are scaled for RLS.

    Attributes
    ----------
    fit : callable
    standardise, unit_norm : as for `RLS`
    per_fit : bool
        It is fitted anew on the training items of each trial, as its authors do.
    by_chance : bool
        The seed changes it; else one run stands for those of all seeds.
    """

    fit: Callable[[Task], Fitted]
    standardise: str = "centre"
    unit_norm: bool = False
    per_fit: bool = False
    by_chance: bool = True

    def learner(self, criterion: str, one_a_class: bool) -> RLS:
        """RLS whose lambda is chosen from training rows alone.

        One row a class leaves none to hold out: then the default lambda, on centred columns, for an uncentred sum of
        ten rows has nothing to tell them apart by.
        """
        if one_a_class:
            standardise = "centre" if self.standardise == "none" else self.standardise
            return RLS("default", standardise=standardise, unit_norm=self.unit_norm)
        return RLS(criterion, standardise=self.standardise, unit_norm=self.unit_norm)  # type: ignore[arg-type]


def _preset(task: Task) -> Fitted:
    return _bank(FeatureMap.fit(task.spec, task.signals() if task.spec.needs_signals else None))


def _plain(task: Task) -> Fitted:
    spec = task.spec.plain()
    return _bank(FeatureMap.fit(spec, task.signals() if spec.needs_signals else None))


def _raw(task: Task) -> Fitted:
    return Fitted(fit_baseline("raw", task.spec).transform)


def _bank(features: FeatureMap) -> Fitted:
    features.warm()
    return Fitted(features.transform, features.bank_hash)


SPEECH = {
    "preset": Method(_preset, "z-score", unit_norm=True),
    "plain": Method(_plain, "z-score", unit_norm=True),
    "raw": Method(_raw, by_chance=False),
    "mfcc": Method(sounds.fit_mfcc, "z-score", by_chance=False),
    "logmel": Method(sounds.fit_log_mel, by_chance=False),
    "augment": Method(sounds.fit_augment, by_chance=False),
    "scattering": Method(sounds.fit_scattering, "z-score", by_chance=False),
    "minirocket": Method(sounds.fit_minirocket, "z-score", per_fit=True),
    "minirocket-untrimmed": Method(sounds.fit_minirocket_whole, "z-score", per_fit=True),
}

PICTURES = {
    "preset": Method(_preset, "none"),
    "plain": Method(_plain, "none"),
    "raw": Method(_raw, by_chance=False),
    "pixels": Method(pixels.fit_pixels, by_chance=False),
    "rbf": Method(pixels.fit_rbf),
    "nystroem": Method(pixels.fit_nystroem),
    "augment": Method(pixels.fit_augment),
    "hog": Method(pixels.fit_hog, by_chance=False),
    "kymatio": Method(pixels.fit_kymatio, "z-score", by_chance=False),
    "kymatio-fine": Method(pixels.fit_kymatio_fine, "z-score", by_chance=False),
    "kymatio-front-end": Method(pixels.fit_kymatio_front_end, "z-score", by_chance=False),
}

METHODS = tuple(dict.fromkeys([*SPEECH, *PICTURES]))
"""Every name."""


def method_of(name: str, speech: bool) -> Method:
    """The method of that name, for recordings or for pictures.

    Raises
    ------
    ConfigError
        There is none; lists those there are.
    """
    table = SPEECH if speech else PICTURES
    if name not in table:
        kind = "recordings" if speech else "pictures"
        raise ConfigError(f"for {kind} a method is one of {', '.join(table)}; got {name!r}")
    return table[name]
