"""What moves: m vectors of d numbers, drawn at random, taken from data, or the user's own. One file a source.

    templates = {source = "gaussian", m = 256, epsilon = 0.5}
    templates = {source = "hadamard", m = 1024}
    templates = {source = "fourier", m = 800, kernel = "laplacian"}    # or "gaussian"
    templates = {source = "data", m = 200}
    templates = {source = "landmarks", m = 200, choose = "k-means++"}  # or "random"
    templates = {source = "whitened-data", m = 128, floor = 1.0}
    templates = {source = "user", m = 8}

A source is a frozen dataclass whose fields are its parameters in a spec, with the methods of `Source`; one line in
`SOURCES` makes it known. Vectors drawn at random or at unit norm are bounded: ||t||^2 < 1 + epsilon, so that |<x, gt>|
stays below s = 1 + epsilon for a unit x and a g that keeps norms (Mroueh, Voinea, Poggio 2015, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from streamfeat.spec import as_table, read_kind
from streamfeat.templates.data import Data, Landmarks, choose_rows, choose_spread_rows, data_templates
from streamfeat.templates.fourier import Frequencies, cauchy_templates, fourier_templates
from streamfeat.templates.gaussian import Gaussian, gaussian_templates
from streamfeat.templates.hadamard import Hadamard, hadamard_templates
from streamfeat.templates.request import Drawn, Request
from streamfeat.templates.user import User, user_templates
from streamfeat.templates.whitened import WhitenedData, whitened_templates

__all__ = [
    "SOURCES",
    "Drawn",
    "Request",
    "Source",
    "cauchy_templates",
    "choose_rows",
    "choose_spread_rows",
    "data_templates",
    "fourier_templates",
    "gaussian_templates",
    "hadamard_templates",
    "read_source",
    "source_table",
    "user_templates",
    "whitened_templates",
]


class Source(Protocol):
    """Where templates come from."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    source: ClassVar[str]
    """Its name in a spec."""
    gives: ClassVar[frozenset[str]]
    """What its templates can be: "vectors" of the size of inputs, "frequencies"."""
    needs_signals: ClassVar[bool]

    @property
    def m(self) -> int:
        """How many."""
        ...

    @property
    def epsilon(self) -> float:
        """Squared norms of vectors are below 1 + epsilon; `paper` thresholds reach to it."""
        ...

    def draw(self, request: Request) -> Drawn:
        """m templates."""
        ...


SOURCES: dict[str, type[Source]] = {
    s.source: s for s in (Gaussian, Data, User, Frequencies, Hadamard, Landmarks, WhitenedData)
}
"""Name in a spec -> source."""


def read_source(table: Mapping[str, Any]) -> Source:
    """The source that a spec's table describes.

    Raises
    ------
    ConfigError
        An unknown source or parameter, or a value out of range.
    """
    return read_kind(SOURCES, table, "templates", key="source")


def source_table(source: Source) -> dict[str, Any]:
    """The canonical table, which `read_source` takes."""
    return {"source": source.source, **as_table(source)}
