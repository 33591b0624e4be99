"""A model: RLS and the hash of the bank whose features it was fitted on; saved, opened, and asked.

    <path>/
        model.json     held to schemas/model.schema.json: bank, classes, settings, how lambda was chosen, array hashes
        coef.npy ...   one file an array

A saved model never changes; `save_version` adds a numbered one and `latest` finds the newest that is whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import fastjsonschema
import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import BankMismatch, ConfigError, NotFound, Unavailable
from streamfeat.learn.checks import Label
from streamfeat.learn.rls import RLS
from streamfeat.learn.store import open_directory, save_directory

FORMAT = "streamfeat-model-1"
KEPT_VERSIONS = 2
"""The newest, and the one before it: whoever is opening that one may finish."""


@dataclass(frozen=True, eq=False)
class Model:
    """RLS that knows its bank.

    Parameters
    ----------
    rls : RLS
        Fitted.
    bank_hash : str
        Features of another bank are refused.

    Examples
    --------
    >>> import numpy as np
    >>> model = Model(RLS(0.1).fit(np.eye(2), ["a", "b"]), bank_hash="3fa9")
    >>> model.predict([[0.9, 0.0]])
    ['a']
    """

    rls: RLS = field(repr=False)
    bank_hash: str

    @property
    def classes(self) -> list[Label]:
        """In the order of the columns of scores."""
        return self.rls.classes_

    def scores(self, features: ArrayLike, bank_hash: str | None = None) -> NDArray[np.float64]:
        """Scores (n, n_classes) of features (n, D).

        Raises
        ------
        BankMismatch
            The features are said to be of another bank; both hashes are named.
        InvalidArgument
            Another width, NaN.
        """
        if bank_hash is not None and bank_hash != self.bank_hash:
            raise BankMismatch(
                f"this model was fitted on features of bank {self.bank_hash}, got one of bank {bank_hash}; "
                "compute it with that bank, or fit another model"
            )
        return self.rls.decision_function(features)

    def predict(self, features: ArrayLike, bank_hash: str | None = None) -> list[Label]:
        """The label of each feature, as it was given."""
        return [self.classes[best] for best in self.scores(features, bank_hash).argmax(axis=1)]

    def save(self, path: Path) -> None:
        """Write the model as a new directory, whole or not at all.

        Raises
        ------
        InvalidArgument
            Something is there already.
        """
        fields, arrays = self.rls.state()
        fields = {"format": FORMAT, "bank_hash": self.bank_hash, **fields}
        _hold_to_schema(path, fields)
        save_directory(path, "model", fields, arrays)

    @classmethod
    def open(cls, path: Path) -> Model:
        """The model that was saved: its scores are bit-equal.

        Raises
        ------
        NotFound
            No model there.
        ConfigError
            It was changed or damaged, or another version wrote it.
        """
        fields, arrays = open_directory(path, "model")
        if fields.get("format") != FORMAT:
            raise ConfigError(f"model {path} has the format {fields.get('format')!r}, this version reads {FORMAT!r}")
        _hold_to_schema(path, fields)
        return cls(RLS.from_state(fields, arrays), fields["bank_hash"])


def save_version(model: Model, folder: Path) -> Path:
    """Save the model as the next `model-NNNN` of the folder; all but the newest `KEPT_VERSIONS` go.

    One process at a time: what another was writing when it was killed goes, too.

    Raises
    ------
    Unavailable
        The disk is full or gone.
    """
    there = versions(folder)
    number = int(there[-1].name.removeprefix("model-")) + 1 if there else 1
    path = folder / f"model-{number:04d}"
    try:
        model.save(path)
    except OSError as error:
        raise Unavailable(f"{folder} cannot be written: {error.strerror}; free the disk and try again") from error
    for old in [*[*there, path][:-KEPT_VERSIONS], *folder.glob(".model-*")]:
        shutil.rmtree(old)
    return path


def latest(folder: Path) -> Model:
    """The newest saved version.

    Raises
    ------
    NotFound
        None was saved.
    """
    there = versions(folder)
    if not there:
        raise NotFound(f"no model {folder.name!r}: nothing was fitted yet; fit it first")
    return Model.open(there[-1])


def versions(folder: Path) -> Sequence[Path]:
    """Saved versions, oldest first."""
    found = [path for path in folder.glob("model-*") if path.name.removeprefix("model-").isdigit()]
    return sorted(found, key=lambda path: int(path.name.removeprefix("model-")))


def _hold_to_schema(path: Path, fields: dict[str, Any]) -> None:
    try:
        _schema_check()(fields)
    except fastjsonschema.JsonSchemaValueException as error:
        raise ConfigError(f"model {path}: model.json: {error.message}; fit it again") from None


@cache
def _schema_check() -> Any:
    text = resources.files("streamfeat.schemas").joinpath("model.schema.json").read_text(encoding="utf-8")
    return fastjsonschema.compile(json.loads(text))
