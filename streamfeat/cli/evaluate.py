"""`streamfeat evaluate`: a preset under a protocol, beside other methods on the same items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from streamfeat.cli.console import emit, json_option, progress, written_file
from streamfeat.cli.guidance import OneOf, examples
from streamfeat.config import DATA_VARIABLE
from streamfeat.errors import ConfigError
from streamfeat.figures import MISSING, may_draw
from streamfeat.protocols.evaluate import PROTOCOLS, Request, evaluate
from streamfeat.protocols.methods import METHODS
from streamfeat.protocols.page import write_evaluation


def _show(report: dict[str, Any]) -> None:
    """A column of the protocol a line, a method beside the other: mean ± deviation, then what trouble takes away."""
    methods = report["methods"]
    columns = list(report["accuracy"])
    losses = report.get("loss", {})
    width = max(map(len, (*columns, *(f"loss, {column}" for column in losses))))
    click.echo(" " * width + "".join(name.rjust(24) for name in methods))
    for column in columns:
        cells = (_cell(figures, column) for figures in methods.values())
        click.echo(column.ljust(width) + "".join(cell.rjust(24) for cell in cells))
    for column in losses:
        cells = (f"{figures['loss'][column]:+.4f}" for figures in methods.values())
        click.echo(f"loss, {column}".ljust(width) + "".join(cell.rjust(24) for cell in cells))
    click.echo("ms an item".ljust(width) + "".join(f"{m['ms_per_item']:.3g}".rjust(24) for m in methods.values()))
    click.echo("numbers".ljust(width) + "".join(str(m["dim"]).rjust(24) for m in methods.values()))
    over = {"seeds": f"over {report['seeds']} seeds ({report['seeds_of']})", "items": "of the items (binomial)"}
    others = "".join(
        f", {name}: {over[m['sd_over']]}" for name, m in methods.items() if m["sd_over"] != report["sd_over"]
    )
    spread = over[report["sd_over"]] + others
    click.echo(f"{report['preset']} under {report['protocol']}; ± {spread}; {report['wall_s']} s")
    for note in report["notes"]:
        click.echo(f"note: {note}")


def _cell(figures: dict[str, Any], column: str) -> str:
    return f"{figures['accuracy'][column]:.4f} ±{figures['sd'][column]:.4f}"


@click.command(
    help="Accuracy of a preset under a protocol, beside other methods on the same items, splits and seeds. Lambda, "
    "thresholds and templates are chosen on training data alone.",
    epilog=examples(
        "streamfeat evaluate --preset digits-image --protocol mnist-few",
        "# beside MFCC, with one bank in place of four",
        "streamfeat evaluate --preset digits-audio --protocol fsdd-loso \\",
        "    --method preset --method mfcc --seeds 1",
        "streamfeat evaluate --preset faces --protocol orl-verify --html faces.html",
    ),
)
@click.option("--preset", required=True, metavar="NAME", help="A preset, or a spec in a .toml file.")
@click.option("--protocol", required=True, type=OneOf(list(PROTOCOLS)))
@click.option(
    "--method", "methods", multiple=True, type=OneOf(METHODS), help="May be repeated; without it, the preset's."
)
@click.option("--seeds", type=click.IntRange(1, 1000), help="Banks or draws, whichever the protocol varies.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True),
    help="Test items in place of the protocol's: a folder per class, {digit}_{speaker}_{take} or an .npz.",
)
@click.option(
    "--train-data",
    type=click.Path(path_type=Path),
    envvar=DATA_VARIABLE,
    help="Folder of the protocols' data. Default: STREAMFEAT_DATA, else ../shared/data.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    callback=written_file,
    help="Write a page: curves, confusion, ROC, times, the command and hashes (needs matplotlib).",
)
@json_option
def command(
    preset: str,
    protocol: str,
    methods: tuple[str, ...],
    seeds: int | None,
    data: Path | None,
    train_data: Path | None,
    html: Path | None,
    json_to: str | None,
) -> None:
    """Run it, write the page, print the table."""
    if html is not None and not may_draw():
        raise ConfigError(MISSING)
    request = Request(protocol, preset, methods or ("preset",), seeds, data, train_data)
    report = evaluate(request, progress=progress)
    if html is not None:
        write_evaluation(html, report, request)
    emit(report, json_to, lambda: _show(report))
