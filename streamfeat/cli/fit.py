"""`streamfeat fit`: a model of what `streamfeat featurize` wrote, through Dask."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np

from streamfeat.cli.console import emit, json_option, progress
from streamfeat.cli.guidance import OneOf, examples
from streamfeat.errors import EXIT_OK, InvalidArgument
from streamfeat.featureset import FeatureSet, read_features
from streamfeat.learn.rls import RLS
from streamfeat.learn.scaling import Standardise
from streamfeat.model import Model
from streamfeat.signals.signal import printable


def _lam(context: click.Context, option: click.Parameter, value: str) -> Any:  # noqa: ARG001
    """A number where it is one; RLS knows the names."""
    try:
        return float(value)
    except ValueError:
        return value


@click.command(
    help="Fit regularised least squares to FEATURES, which `streamfeat featurize` wrote: Gram matrices of parts of the "
    "rows, merged in a tree through Dask (extra: dask); equal to RLS.fit, to rounding. Rows without a label are left "
    "out. Workers of a local cluster read the rows; to those of a scheduler of yours they are sent. That scheduler "
    "must be trusted, as must whoever reaches its port: its wire uses pickles, which are programs (a fleet's does not)",
    epilog=examples(
        "streamfeat featurize tidigits --out features",
        "streamfeat fit features --out model --lam logo",
        "# on a Dask scheduler of yours",
        "streamfeat fit features --out model --scheduler tcp://host:8786",
    ),
)
@click.argument("features", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Model to write: a new folder.")
@click.option(
    "--lam",
    default="loo",
    show_default=True,
    metavar="loo|logo|holdout|default|NUMBER",
    callback=_lam,
    help="How lambda is chosen: a row, a speaker or a fifth of the rows held out, or not at all.",
)
@click.option("--standardise", type=OneOf(get_args(Standardise)), default="centre", show_default=True, help="Columns.")
@click.option("--balance", is_flag=True, help="Classes weigh the same, however many rows they have.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws the rows that loo tries.")
@click.option("--scheduler", default="local", show_default=True, metavar="local|ADDRESS", help="A Dask scheduler.")
@json_option
def command(
    features: Path,
    out: Path,
    lam: Any,
    standardise: str,
    balance: bool,
    seed: int,
    scheduler: str,
    json_to: str | None,
) -> int:
    """Read, fit, save, report."""
    rls = RLS(lam, standardise=standardise, balance=balance, seed=seed)
    if out.exists():
        raise click.UsageError(f"--out {out} is there already, and saved models do not change: name another")
    found = read_features(features)
    labelled = np.flatnonzero(found.labels != "")
    started = time.monotonic()
    _fit(rls, features, found, labelled, scheduler)
    Model(rls, found.bank).save(out)
    held_out = rls.held_out_
    report = {
        "features": printable(str(features)),
        "out": printable(str(out)),
        "bank": found.bank,
        "rows": len(labelled),
        "unlabelled": len(found.labels) - len(labelled),
        "columns": found.rows.shape[1],
        "classes": rls.classes_,
        "lam": rls.lam_,
        "held_out": {
            "criterion": held_out.criterion,
            "accuracy": None if np.isnan(held_out.accuracy) else held_out.accuracy,
        },
        "wall_s": round(time.monotonic() - started, 3),
    }
    emit(report, json_to, lambda: _print(report))
    return EXIT_OK


def _fit(rls: RLS, place: Path, found: FeatureSet, labelled: Any, scheduler: str) -> None:
    from streamfeat.dask import connect, fit, stored

    speakers = found.speakers[labelled]
    if rls.lam == "logo" and (speakers == "").any():
        raise InvalidArgument(f"{place}: lam logo leaves out speakers, and not every row has one; take loo or holdout")
    rows = stored(place, send=scheduler != "local")
    if len(labelled) < rows.shape[0]:
        rows = rows[labelled]
    with progress("rows", len(labelled)) as advance, connect(scheduler) as client:
        groups = speakers.tolist() if rls.lam == "logo" else None
        fit(rls, rows, found.labels[labelled].tolist(), groups, client=client, finished=advance)


def _print(report: dict[str, Any]) -> None:
    click.echo(f"{report['out']}: {len(report['classes'])} classes from {report['rows']} rows in {report['wall_s']} s")
    held_out = report["held_out"]
    if held_out["accuracy"] is not None:
        click.echo(f"accuracy {held_out['accuracy']:.4f} ({held_out['criterion']}), lambda {report['lam']:.3g}")
    if report["unlabelled"]:
        click.echo(f"{report['unlabelled']} rows without a label were left out", err=True)
