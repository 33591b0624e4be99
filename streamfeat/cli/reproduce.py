"""`streamfeat reproduce`: the papers' experiments, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from streamfeat.cli.console import emit, json_option, progress
from streamfeat.cli.guidance import OneOf, examples
from streamfeat.config import DATA_VARIABLE
from streamfeat.reports.tables import tables_of
from streamfeat.reproduce.cifar10 import CIFAR10
from streamfeat.reproduce.experiment import HOLDS, Experiment, report_name, reproduce
from streamfeat.reproduce.faces import FACES
from streamfeat.reproduce.mnist import MNIST
from streamfeat.reproduce.qm7 import QM7
from streamfeat.reproduce.rates import KERNEL_ERROR
from streamfeat.reproduce.rotmnist import ROTMNIST
from streamfeat.reproduce.tidigits import TIDIGITS
from streamfeat.reproduce.xperm import XPERM

ORDER = (XPERM, MNIST, TIDIGITS, KERNEL_ERROR, QM7, ROTMNIST, CIFAR10, FACES)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in ORDER}
"""By name."""

ABOUT = {
    "xperm": "sequences under permutations, learned from few (Mroueh et al. 2015, figure 1)",
    "mnist": "handwritten digits from few labels (Mroueh et al. 2015, figure 2)",
    "tidigits": "spoken digits of new speakers, beside MiniRocket and scattering where scripts/peers installed them "
    "(Mroueh et al. 2015, figure 3); --data names a TIDIGITS of your own",
    "kernel-error": "how the error of features falls with templates and group elements (Raj et al. 2017, theorem 3.1)",
    "qm7": "energies of molecules from Coulomb matrices (Raj et al. 2017, table 1)",
    "rotmnist": "digits at any angle (Raj et al. 2017, table 2)",
    "cifar10": "photographs in ten classes (Raj et al. 2017, table 3)",
    "faces": "max-margin invariant features of faces (Pal et al. 2017)",
}


def _show(report: dict[str, Any], page: Path) -> None:
    """The protocol, a table a metric, what the paper says and whether it holds, deviations."""
    click.echo(report["protocol"])
    for table in tables_of(report["rows"]):
        click.echo(f"\n{table.metric}")
        lines = [table.head, *table.lines]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            first, *others = (text.rjust(width) for text, width in zip(line, widths, strict=True))
            click.echo("  ".join([first.strip().ljust(widths[0]), *others]))
    click.echo()
    for claim in report["claims"]:
        click.echo(f"{HOLDS[claim['holds']]}: {claim['text']} {claim['why']}")
    for deviation in report["deviations"]:
        click.echo(f"not as in the paper: {deviation}")
    click.echo(f"{page}; {report['wall_s']} s")


@click.command(
    help="Run an experiment of the papers again, or go on where it was stopped. "
    + " ".join(f"{name}: {about}." for name, about in ABOUT.items()),
    epilog=examples(
        "streamfeat reproduce xperm --fast",
        "streamfeat reproduce kernel-error --fast --out report",
        "streamfeat reproduce mnist --data data",
    ),
)
@click.argument("name", metavar="NAME", type=OneOf(list(EXPERIMENTS)))  # the names stand in the help
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reproduce"),
    show_default=True,
    help="Folder of the report, and of what is done so far.",
)
@click.option("--fast", is_flag=True, help="A small form, in under five minutes.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True),
    envvar=DATA_VARIABLE,
    help="Folder or file of the data. Default: STREAMFEAT_DATA, else ../shared/data.",
)
@click.option(
    "--width",
    type=click.IntRange(min=1),
    help="Numbers of a feature, for cifar10: 8192 unless told; the paper's 30000 takes 10 GB and, on two cores, "
    "an hour and a half.",
)
@json_option
def command(name: str, out: Path, fast: bool, data: Path | None, width: int | None, json_to: str | None) -> None:
    """Run it and print the report."""
    report = reproduce(EXPERIMENTS[name], fast=fast, folder=out, progress=progress, data=data, width=width)
    emit(report, json_to, lambda: _show(report, out / f"{report_name(name, fast, width)}.html"))
