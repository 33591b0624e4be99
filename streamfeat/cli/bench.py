"""`streamfeat bench`: what features cost, beside the alternatives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from streamfeat.bench.cluster import QUICK as QUICK_CLUSTER
from streamfeat.bench.cluster import Plan as ClusterPlan
from streamfeat.bench.cluster import bench_dask
from streamfeat.bench.fleet import QUICK as QUICK_FLEET
from streamfeat.bench.fleet import Plan as FleetPlan
from streamfeat.bench.fleet import bench_fleet
from streamfeat.bench.kernels import QUICK, Plan, bench_kernels
from streamfeat.bench.pairs import QUICK as QUICK_PAIRS
from streamfeat.bench.pairs import Plan as PairsPlan
from streamfeat.bench.pairs import bench_pairs
from streamfeat.bench.peers import QUICK as QUICK_PEERS
from streamfeat.bench.peers import Extent, bench_peers
from streamfeat.bench.plots import draw_fleet, draw_kernels, draw_peers
from streamfeat.bench.templates import QUICK as QUICK_TEMPLATES
from streamfeat.bench.templates import Digits, compare_templates
from streamfeat.bench.templates import Plan as TemplatesPlan
from streamfeat.cli.console import emit, json_option, written_file
from streamfeat.cli.guidance import Commands, examples
from streamfeat.config import DATA_VARIABLE
from streamfeat.errors import ConfigError
from streamfeat.figures import MISSING, may_draw


def _plot_file(context: click.Context, option: click.Parameter, value: Path | None) -> Any:
    if value is not None and not may_draw():
        raise ConfigError(MISSING)
    return written_file(context, option, value)


plot_option = click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_plot_file,
    help="The picture's file. Default: beside the JSON file, where matplotlib is installed.",
)


@click.group(
    cls=Commands,
    help="Measure what features cost, beside the best that could be done otherwise.",
    epilog=examples(
        "streamfeat bench kernels --quick",
        "streamfeat bench fleet --quick",
    ),
)
def command() -> None:
    """What can be measured, one command each."""


@command.command(
    help="Fast transforms against sgemm with the same pooling and against the paper's NumPy; the dense path; the "
    "roofline; time against m, |G|, d, batch and items in memory. One thread a side, turn about, in under ten minutes. "
    "A picture of the growth is put beside the JSON file.",
    epilog=examples(
        "streamfeat bench kernels --quick",
        "streamfeat bench kernels --json kernels.json --plot kernels.png",
    ),
)
@click.option("--quick", is_flag=True, help="Fewer turns and sizes, in under a minute.")
@plot_option
@json_option
def kernels(quick: bool, plot: Path | None, json_to: str | None) -> None:
    """Run it and print the table."""
    report = bench_kernels(QUICK if quick else Plan(), lambda what: click.echo(what, err=True))
    emit(report, json_to, lambda: show_kernels(report))
    _picture(plot, json_to, lambda file: draw_kernels(file, report))


@command.command(
    help="Accuracy of structured templates beside Gaussian ones: CDF features of shifted and turned digits, 10 and 100 "
    "labels a class, the same items for both. DIGITS is an .npz of x_train, y_train, x_test, y_test (MNIST).",
    epilog=examples(
        "streamfeat bench templates mnist.npz --quick",
    ),
)
@click.argument("digits", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--quick", is_flag=True, help="Two seeds.")
@json_option
def templates(digits: Path, quick: bool, json_to: str | None) -> None:
    """Run it and print the table."""
    plan = QUICK_TEMPLATES if quick else TemplatesPlan()
    report = compare_templates(Digits.open(digits), plan, lambda what: click.echo(what, err=True))
    emit(report, json_to, lambda: show_templates(report))


@command.command(
    help="Broker and two workers beside two threads of this process, on the same two cores: items a second, latency "
    "one by one and under Poisson load, memory over 100,000 items. A picture is put beside the JSON file.",
    epilog=examples(
        "streamfeat bench fleet --quick",
        "streamfeat bench fleet --json fleet.json",
    ),
)
@click.option("--quick", is_flag=True, help="Short bursts, no memory, in under a minute.")
@plot_option
@json_option
def fleet(quick: bool, plot: Path | None, json_to: str | None) -> None:
    """Run it and print the table."""
    report = bench_fleet(QUICK_FLEET if quick else FleetPlan(), lambda what: click.echo(what, err=True))
    emit(report, json_to, lambda: show_fleet(report))
    _picture(plot, json_to, lambda file: draw_fleet(file, report))


@command.command(
    help="Our presets beside kymatio, MiniRocket (aeon), scikit-learn, scikit-image, librosa and the paper's NumPy: "
    "the same digits, splits and seeds, accuracy and time an item on one thread. Those that are not installed are "
    "named (scripts/peers installs all). A picture is put beside the JSON file.",
    epilog=examples(
        "streamfeat bench peers --quick",
        "streamfeat bench peers --data data --json peers.json",
    ),
)
@click.option("--quick", is_flag=True, help="Few items, in under a minute: its accuracies are no figures.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    envvar=DATA_VARIABLE,
    help="Folder of MNIST and FSDD. Default: STREAMFEAT_DATA, else ../shared/data, else stand-ins.",
)
@plot_option
@json_option
def peers(quick: bool, data: Path | None, plot: Path | None, json_to: str | None) -> None:
    """Run it and print the table."""
    report = bench_peers(QUICK_PEERS if quick else Extent(), lambda what: click.echo(what, err=True), data)
    emit(report, json_to, lambda: show_peers(report))
    _picture(plot, json_to, lambda file: draw_peers(file, report))


@command.command(
    help="`streamfeat verify` on 10^9 pairs of rows of 64 numbers, beside sgemm of the same pairs in as many threads, "
    "turn about.",
    epilog=examples(
        "streamfeat bench verify --quick",
        "streamfeat bench verify --json verify.json",
    ),
)
@click.option("--quick", is_flag=True, help="5 x 10^7 pairs, in seconds.")
@json_option
def verify(quick: bool, json_to: str | None) -> None:
    """Run it and print both times."""
    report = bench_pairs(QUICK_PAIRS if quick else PairsPlan(), lambda what: click.echo(what, err=True))
    emit(report, json_to, lambda: show_pairs(report))


@command.command(
    help="20,000 digits through a local Dask cluster of two workers, beside two threads of this process, turn about on "
    "the same two cores (extra: dask).",
    epilog=examples(
        "streamfeat bench dask --quick",
        "streamfeat bench dask --json dask.json",
    ),
)
@click.option("--quick", is_flag=True, help="2,048 digits, in under a minute.")
@json_option
def dask(quick: bool, json_to: str | None) -> None:
    """Run it and print both times."""
    report = bench_dask(QUICK_CLUSTER if quick else ClusterPlan(), lambda what: click.echo(what, err=True))
    emit(report, json_to, lambda: show_cluster(report))


def _picture(plot: Path | None, json_to: str | None, draw: Callable[[Path], None]) -> None:
    """A picture where it is wanted: in a file of its own, or beside the JSON file if there is one."""
    if plot is None and json_to not in (None, "-") and Path(str(json_to)).is_file() and may_draw():
        plot = Path(str(json_to)).with_suffix(".png")
    if plot is not None:
        draw(plot)
        click.echo(f"picture: {plot}", err=True)


def show_fleet(report: dict[str, Any]) -> None:
    """Rates of each kind of item, then latency by window and by load, then memory."""
    for what in (what for what in ("image", "audio") if what in report):
        kind = report[what]
        spread = "{median:.3f} ({min:.3f} to {max:.3f})".format(**kind["ratio"])
        rates = f"fleet {kind['fleet_items_per_s']:.0f}/s, in process {kind['inprocess_items_per_s']:.0f}/s"
        click.echo(f"{what}, {kind['bank']}: {rates}, ratio {spread}")
        cpu = f"{kind['fleet_cpu_ms']:.3f} ms an item, in process {kind['inprocess_cpu_ms']:.3f}"
        click.echo(f"  CPU time: fleet {cpu}, ratio {kind['cpu_vs_inprocess']:.3f}")
        click.echo(f"  single items: {kind['p50_added_ms']:.3f} ms beyond computing (median)")
        click.echo(f"  {'':18}{'items/s':>9}{'p50 ms':>9}{'p99':>9}{'p99.9':>9}{'queue':>9}{'compute':>9}")
        rows = [(f"{row['window']} under way", row) for row in kind["closed"]]
        rows += [(f"{row['offered_per_s']:.0f}/s, Poisson", row) for row in kind["open"]]
        for name, row in rows:
            keys = ("p50_ms", "p99_ms", "p999_ms", "queue_ms", "compute_ms")
            click.echo(f"  {name:18}{row['items_per_s']:9.1f}" + "".join(f"{row[key]:9.2f}" for key in keys))
    for name, of in report.get("memory", {}).items():
        click.echo(
            f"{name}: {of['mib'][0]} MiB after {of['after_items'][0]} items, {of['mib'][1]} MiB after "
            f"{of['after_items'][1]} ({100 * of['growth']:+.1f} %)"
        )
    click.echo(f"load average {report['load_average']}; {report['wall_s']} s")


def show_peers(report: dict[str, Any]) -> None:
    """A row a method and column, then the ratios, what is missing and what stands in."""
    click.echo(f"{'':30}{'':12}{'':12}{'accuracy':>9}{'cpu ms':>10}{'wall ms':>10}")
    for row in report["rows"]:
        name = f"{row['method']:30}{row['protocol']:12}{row['column']:12}"
        click.echo(f"{name}{row['accuracy']:9.4f}{row['ms_per_item']:10.3f}{row['wall_ms']:10.3f}")
    for name, spread in report["ratios"].items():
        click.echo(f"{name}: {spread['median']:.2f} ({spread['min']:.2f} to {spread['max']:.2f})")
    for lacks in report["missing"]:
        click.echo(f"not run: {lacks['method']} needs {lacks['package']}; {lacks['install']} installs it")
    for note in report["notes"]:
        click.echo(f"note: {note}")
    click.echo(f"{report['clock']}; {report['wall_s']} s")


def show_cluster(report: dict[str, Any]) -> None:
    """Both rates, their ratios, and whether the features are the same."""
    same = "the same to the bit" if report["equal"] else "NOT the same"
    click.echo(f"{report['items']} digits, {report['bank']}, {report['numbers']} numbers each: features {same}")
    for name in ("cluster", "threads"):
        of = report[name]
        click.echo(f"{name:10}{of['wall_s']:9.2f} s{of['items_per_s']:9.0f}/s, CPU {of['cpu_s']:.2f} s")
    for name, ratio in (("wall", "ratio"), ("CPU", "cpu_ratio")):
        click.echo(f"{name} ratio " + "{median:.2f} ({min:.2f} to {max:.2f})".format(**report[ratio]))
    click.echo(f"cluster started in {report['start_s']} s; load average {report['load_average']}; {report['wall_s']} s")


def show_pairs(report: dict[str, Any]) -> None:
    """Both times, of the wall clock and of CPU, with their ratios."""
    click.echo(f"{report['pairs']:,} pairs of {report['d']} numbers, {report['n_threads']} threads")
    click.echo(f"{'':8}{'verify s':>10}{'sgemm s':>10}   ratio")
    for name, of, ratio in (("wall", "wall_s", "ratio"), ("CPU", "cpu_s", "cpu_ratio")):
        spread = "{median:.2f} ({min:.2f} to {max:.2f})".format(**report[ratio])
        click.echo(f"{name:8}{report['verify'][of]:10.2f}{report['sgemm'][of]:10.2f}   {spread}")


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
