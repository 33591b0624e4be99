"""`streamfeat verify`: verification rates, equal error rate and ROC over all pairs of rows in a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from streamfeat.cli.console import emit, json_option, progress, written_file
from streamfeat.cli.guidance import examples
from streamfeat.errors import InvalidArgument
from streamfeat.figures import new_figure, save_png
from streamfeat.learn.checks import check_features
from streamfeat.learn.verification import Verification, verify
from streamfeat.signals.arrays import open_npy, read_npz


def _rates(context: click.Context, option: click.Parameter, value: str) -> dict[str, float]:  # noqa: ARG001
    """The rates asked for, by the words they were asked in."""
    try:
        rates = {word.strip(): float(word) for word in value.split(",")}
    except ValueError:
        raise click.BadParameter(f"numbers from 0 to 1, with commas between them, got {value!r}") from None
    wrong = [word for word, rate in rates.items() if not 0 <= rate <= 1]
    if wrong:
        raise click.BadParameter(f"a false accept rate lies from 0 to 1, got {wrong[0]}")
    return rates


def read_rows(file: Path, labels: Path | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The labelled rows (n, D) and their labels (n,), from an .npy each or from an .npz of both.

    Rows whose label is the empty text, as `push --out` writes where it knows none, are left out.

    Raises
    ------
    InvalidArgument
        By the file's name: unreadable, objects, another shape, values that are not finite, another number of labels, no
        label at all.
    """
    X = array_in(file, "features")
    try:
        check_features(X)
    except InvalidArgument as error:
        raise InvalidArgument(f"{file}: {error}") from error
    if labels is None and file.suffix != ".npz":
        raise InvalidArgument(f"{file}: whose rows are they? Name a file of {len(X)} labels with --labels")
    where = labels or file
    y = array_in(where, "labels")
    if y.shape != (len(X),):
        raise InvalidArgument(f"{where}: labels must have shape ({len(X)},) as {file} has {len(X)} rows, got {y.shape}")
    if y.dtype.kind not in "iuU":
        raise InvalidArgument(f"{where}: labels must be whole numbers or texts, got dtype {y.dtype}; convert them")
    if y.dtype.kind == "U" and not (known := y != "").all():
        if not known.any():
            raise InvalidArgument(f"{where}: no row has a label, which tells whose it is; name them with --labels")
        click.echo(f"{where}: {np.count_nonzero(~known):,} of {len(y):,} rows have no label: left out", err=True)
        return X[known], y[known]
    return X, y


def array_in(file: Path, name: str) -> NDArray[Any]:
    """The array of an .npy, or the one of that name in an .npz."""
    if file.suffix == ".npz":
        return next(iter(read_npz(file, str(file), [name]).values()))
    return open_npy(file, str(file))


def draw_roc(file: Path, found: Verification) -> None:
    """Verification rate against false accept rate, on a logarithmic axis, with what was asked for."""
    figure = new_figure(6, 5)
    axis = figure.subplots()
    far, vr = found.roc[found.roc[:, 0] > 0].T
    axis.plot(far, vr, label=f"{found.pairs:,} pairs, EER {found.eer:.4f}")
    shown = {rate: value for rate, value in found.vr.items() if rate > 0}
    axis.plot(list(shown), list(shown.values()), "o", color="C1")
    axis.set(xscale="log", xlabel="false accept rate", ylabel="verification rate", ylim=(0, 1.01))
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right")
    save_png(figure, file)


def peak_rss_mb() -> float:
    """The most memory that this process has held, in 10^6 bytes.

    Of its own image: what getrusage tells is the parent's, where that was larger.
    """
    [kib] = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return round(int(kib) * 1024 / 1e6, 1)


def _show(report: dict[str, Any]) -> None:
    click.echo(f"{report['pairs']:,} pairs: {report['genuine']:,} genuine, {report['impostor']:,} of two labels")
    for far, vr in report["vr"].items():
        click.echo(f"verification rate at FAR {far:<8} {vr:.4f}")
    click.echo(f"equal error rate {report['eer']:.4f}; peak memory {report['peak_rss_mb']} MB")


@click.command(
    help="Cosines of all pairs of rows: the part of genuine pairs accepted at each false accept rate, and the equal "
    "error rate. FILE is an .npy of rows (n, D) with --labels, or an .npz from `push --out`. Memory does not grow with "
    "the number of pairs.",
    epilog=examples(
        "streamfeat push pictures --out features.npz",
        "streamfeat verify features.npz --far 0.001,0.01 --plot roc.png",
        "streamfeat verify rows.npy --labels labels.npy",
    ),
)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--labels",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="n whole numbers or texts: .npy, or .npz with `labels`. Default: those in FILE, if it is an .npz.",
)
@click.option(
    "--far",
    "rates",
    default="0.001,0.01",
    show_default=True,
    metavar="RATES",
    callback=_rates,
    help="False accept rates, with commas between them.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    callback=written_file,
    help="Draw the ROC curve (PNG).",
)
@json_option
def command(file: Path, labels: Path | None, rates: dict[str, float], plot: Path | None, json_to: str | None) -> None:
    """Read, verify, draw, print."""
    X, y = read_rows(file, labels)
    found = verify(X, y, list(rates.values()), progress=progress)
    if plot is not None:
        draw_roc(plot, found)
    report = {
        "pairs": found.pairs,
        "genuine": found.genuine,
        "impostor": found.impostor,
        "vr": {word: found.vr[rate] for word, rate in rates.items()},
        "eer": found.eer,
        "peak_rss_mb": peak_rss_mb(),
    }
    emit(report, json_to, lambda: _show(report))
