"""`streamfeat push`: pictures (files, folders, IDX, .npy, .npz) through a fleet."""

from __future__ import annotations

from pathlib import Path

import click

from streamfeat.cli.console import emit, json_option, with_settings
from streamfeat.cli.sending import Sending, exit_status, print_report, send, sending_options, stream_name
from streamfeat.config import Settings
from streamfeat.signals import open_images
from streamfeat.signals.signal import printable


@click.command(help="Send pictures (files, folders, IDX, .npy and .npz batches) through a fleet.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@sending_options(default_bank="digits-image")
@with_settings
@json_option
def command(paths: tuple[Path, ...], sending: Sending, settings: Settings, json_to: str | None) -> int:
    """Send everything; report counts, rate, failures and, for --classify, accuracy."""
    pictures = open_images(paths)
    stream = stream_name(paths)
    _, report = send(settings, sending, pictures.entries, noun="pictures", stream=stream)
    skipped = [{"file": s.name, "reason": s.reason} for s in pictures.skipped]
    report = {"paths": [printable(str(path)) for path in paths], **report, "skipped": skipped}
    emit(report, json_to, lambda: print_report(report, " ".join(report["paths"]), sending))
    return exit_status(report)
