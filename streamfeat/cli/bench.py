"""`streamfeat bench`: what features cost, beside the alternatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from streamfeat.bench.kernels import QUICK, Plan, bench_kernels
from streamfeat.bench.templates import QUICK as QUICK_TEMPLATES
from streamfeat.bench.templates import Digits, compare_templates
from streamfeat.bench.templates import Plan as TemplatesPlan
from streamfeat.cli.console import emit, json_option


@click.group(help="Measure what features cost, beside the best that could be done otherwise.")
def command() -> None:
    """What can be measured, one command each."""


@command.command(
    help="Fast transforms against sgemm with the same pooling and against the paper's NumPy; the dense path; the "
    "roofline; time against m, |G|, d and batch. One thread a side, turn about, in under ten minutes."
)
@click.option("--quick", is_flag=True, help="Fewer turns and sizes, in under a minute.")
@json_option
def kernels(quick: bool, json_to: str | None) -> None:
    """Run it and print the table."""
    report = bench_kernels(QUICK if quick else Plan(), lambda what: click.echo(what, err=True))
    emit(report, json_to, lambda: show_kernels(report))


@command.command(
    help="Accuracy of structured templates beside Gaussian ones: CDF features of shifted and turned digits, 10 and 100 "
    "labels a class, the same items for both. DIGITS is an .npz of x_train, y_train, x_test, y_test (MNIST)."
)
@click.argument("digits", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--quick", is_flag=True, help="Two seeds.")
@json_option
def templates(digits: Path, quick: bool, json_to: str | None) -> None:
    """Run it and print the table."""
    plan = QUICK_TEMPLATES if quick else TemplatesPlan()
    report = compare_templates(Digits.open(digits), plan, lambda what: click.echo(what, err=True))
    emit(report, json_to, lambda: show_templates(report))


def show_templates(report: dict[str, Any]) -> None:
    """A row for each number of labels."""
    click.echo(f"{'labels a class':>14}{'gaussian':>10}{'hadamard':>10}{'points':>8}{'± error':>9}")
    for row in report["rows"]:
        accuracies = f"{row['gaussian']:10.4f}{row['hadamard']:10.4f}"
        click.echo(f"{row['labels_per_class']:14}{accuracies}{row['points']:+8.2f}{row['standard_error']:9.2f}")
    click.echo(f"m = {report['m']}, |G| = {report['n_group']}, {report['n_seeds']} seeds; {report['wall_s']} s")


def show_kernels(report: dict[str, Any]) -> None:
    """A row a measurement, then the ratios."""
    click.echo(f"{'':44}{'cpu ms':>10}{'wall ms':>10}{'GFLOP/s':>9}{'of sgemm':>9}{'GB/s':>8}{'of copy':>8}")
    for row in report["rows"]:
        wall = f"{row['wall_ms']:10.3f}" if "wall_ms" in row else f"{'-':>10}"
        line = f"{row['what']:44}{row['cpu_ms']:10.3f}{wall}"
        rates = row["flops"] / row["cpu_ms"] / 1e6, row["bytes"] / row["cpu_ms"] / 1e6
        click.echo(f"{line}{rates[0]:9.1f}{row['of_sgemm']:9.2f}{rates[1]:8.2f}{row['of_copy']:8.2f}")
    for name, spread in report["ratios"].items():
        click.echo(f"{name}: {spread['median']:.2f} ({spread['min']:.2f} to {spread['max']:.2f})")
    click.echo(f"{report['clock']}; {report['wall_s']} s")
