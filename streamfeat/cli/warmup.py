"""`streamfeat warmup`: compile every kernel once, so that no worker compiles when it starts."""

from __future__ import annotations

import importlib
import pkgutil
import time

import click

from streamfeat import kernels
from streamfeat.cli.console import emit, json_option
from streamfeat.cli.guidance import examples


@click.command(
    help="Compile and cache every kernel; run it once after an installation or an upgrade.",
    epilog=examples(
        "streamfeat warmup",
    ),
)
@json_option
def command(json_to: str | None) -> None:
    """Import every kernel, which compiles it where numba's cache does not have it yet, and say how long it took."""
    seconds = {}
    for module in pkgutil.iter_modules(kernels.__path__):
        started = time.monotonic()
        importlib.import_module(f"{kernels.__name__}.{module.name}")
        seconds[module.name] = round(time.monotonic() - started, 3)
    report = {"kernels": seconds, "wall_s": round(sum(seconds.values()), 3)}
    emit(report, json_to, lambda: click.echo(f"{len(seconds)} kernel files ready in {report['wall_s']} s"))
