"""`streamfeat warmup`: compile every kernel once, so that no worker compiles when it starts."""

from __future__ import annotations

import time

import click

from streamfeat.cli.console import emit, json_option


@click.command(help="Compile and cache every kernel; run it once after an installation or an upgrade.")
@json_option
def command(json_to: str | None) -> None:
    """Load every kernel and report how long it took: seconds where it compiled, less where the cache was warm."""
    started = time.monotonic()
    from streamfeat.kernels import warm_kernels

    kernels = warm_kernels()
    report = {"kernels": kernels, "wall_s": round(time.monotonic() - started, 3)}
    emit(report, json_to, lambda: click.echo(f"{len(kernels)} kernels ready in {report['wall_s']} s"))
