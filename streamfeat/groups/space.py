"""What the parameters of a factor's elements are."""

from __future__ import annotations

from dataclasses import dataclass

from streamfeat.groups.finite import FiniteGroup


@dataclass(frozen=True, slots=True)
class Space:
    """Where the p parameters of one factor's elements live.

    Parameters
    ----------
    names : tuple of str, length p
        With the unit at the end: ("angle_deg",).
    identity : tuple of float, length p
        The element that moves nothing.
    turns : bool
        One parameter that is an angle in degrees: laws of angles fit.
    group : FiniteGroup, optional
        Where the elements can be listed: laws `all` and `sampled` fit.
    """

    names: tuple[str, ...]
    identity: tuple[float, ...]
    turns: bool = False
    group: FiniteGroup | None = None
