"""`streamfeat bench`: what features cost, beside the alternatives."""

from __future__ import annotations

from typing import Any

import click

from streamfeat.bench.kernels import QUICK, Plan, bench_kernels
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
    emit(report, json_to, lambda: _show_kernels(report))


def _show_kernels(report: dict[str, Any]) -> None:
    click.echo(f"{'':44}{'cpu ms':>10}{'wall ms':>10}{'GFLOP/s':>9}{'of sgemm':>9}{'GB/s':>8}{'of copy':>8}")
    for row in report["rows"]:
        line = f"{row['what']:44}{row['cpu_ms']:10.3f}{row['wall_ms']:10.3f}"
        rates = row["flops"] / row["cpu_ms"] / 1e6, row["bytes"] / row["cpu_ms"] / 1e6
        click.echo(f"{line}{rates[0]:9.1f}{row['of_sgemm']:9.2f}{rates[1]:8.2f}{row['of_copy']:8.2f}")
    for name, spread in report["ratios"].items():
        click.echo(f"{name}: {spread['median']:.2f} ({spread['min']:.2f} to {spread['max']:.2f})")
    click.echo(f"{report['clock']}; {report['wall_s']} s")
