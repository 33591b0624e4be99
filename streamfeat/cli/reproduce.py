"""`streamfeat reproduce`: the papers' experiments, run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from streamfeat.cli.console import emit, json_option, progress
from streamfeat.reproduce.rates import reproduce_kernel_error
from streamfeat.reproduce.xperm import reproduce_xperm


def _show_xperm(report: dict[str, Any]) -> None:
    """RLS accuracy with its deviation / 1-NN accuracy, a row a kind of feature."""
    cells = {(cell["features"], cell["N"]): cell for cell in report["cells"]}
    names = list(dict.fromkeys(features for features, _ in cells))
    width = max(map(len, names))
    click.echo("".join([" " * width, *(f"{f'N={n}':>20}" for n in report["sizes"])]))
    for features in names:
        row = (cells[features, n] for n in report["sizes"])
        texts = (f"{c['rls']:.3f}±{c['rls_sd']:.3f}/{c['nn']:.3f}" for c in row)
        click.echo(features.ljust(width) + "".join(text.rjust(20) for text in texts))
    click.echo(
        f"RLS ± deviation / 1-NN; over {report['n_seeds']} seeds, CDF rows over {report['n_draws']} template draws"
    )
    click.echo(f"{report['wall_s']} s")


def _show_kernel_error(report: dict[str, Any]) -> None:
    """Relative errors, and the slopes of their logarithms."""
    click.echo(f"{'templates':12}{'m':>7}{'r':>6}{'spectral':>10}{'frobenius':>11}{'debiased':>10}")
    for row in report["rows"]:
        errors = f"{row['spectral']:10.4f}{row['frobenius']:11.4f}{row['debiased_frobenius']:10.4f}"
        click.echo(f"{row['templates']:12}{row['m']:7}{row['r']:6}{errors}")
    for slope in report["slopes"]:
        click.echo(
            f"{slope['templates']}: error falls as {slope['against']}^{slope['frobenius']:.2f}, "
            f"debiased ^{slope['debiased_frobenius']:.2f} (the theorem's rate: ^-0.50)"
        )
    click.echo(f"molecules: {report['data']}; {report['picture']}; {report['wall_s']} s")


EXPERIMENTS: dict[str, tuple[Callable[..., dict[str, Any]], Callable[[dict[str, Any]], None]]] = {
    "xperm": (reproduce_xperm, _show_xperm),
    "kernel-error": (reproduce_kernel_error, _show_kernel_error),
}
"""Name -> what runs it, what prints its report."""


@click.command(
    help="Run an experiment of the papers again. xperm: sequences under permutations, learned from few (Mroueh et al. "
    "2015). kernel-error: how the error of features falls with templates and group elements (Raj et al. 2017)."
)
@click.argument("name", type=click.Choice(list(EXPERIMENTS)))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("reproduce"), show_default=True)
@click.option("--fast", is_flag=True, help="A small form, in under a minute.")
@click.option("--data", type=click.Path(path_type=Path, exists=True), help="Folder or file of real molecules.")
@json_option
def command(name: str, out: Path, fast: bool, data: Path | None, json_to: str | None) -> None:
    """Run it, or go on where it was stopped, and print the table."""
    run, show = EXPERIMENTS[name]
    report = run(fast=fast, folder=out, progress=progress, data=data)
    emit(report, json_to, lambda: show(report))
