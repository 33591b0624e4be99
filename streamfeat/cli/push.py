"""`streamfeat push`: pictures (files, folders, IDX, .npy, .npz) through a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from streamfeat.cli.choices import frames_option
from streamfeat.cli.console import emit, json_option, with_settings
from streamfeat.cli.guidance import examples
from streamfeat.cli.sending import (
    Sending,
    exit_status,
    print_report,
    send,
    sending_options,
    stream_name,
    write_failures,
)
from streamfeat.config import Settings
from streamfeat.decoding import Decoder, bounded_pictures
from streamfeat.signals import open_images
from streamfeat.signals.signal import printable


@click.command(
    help="Send pictures (files, folders, IDX, .npy and .npz batches) through a fleet.",
    epilog=examples(
        "# features of all pictures, with labels and names",
        "streamfeat push pictures --out features.npz",
        "streamfeat push mnist.npz --learn digits --connect tcp://host:5555",
        "streamfeat push face.png --search faces --bank faces",
    ),
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@sending_options(default_bank="digits-image")
@frames_option
@with_settings
@json_option
def command(paths: tuple[Path, ...], sending: Sending, frames: Any, settings: Settings, json_to: str | None) -> int:
    """Send everything; report counts, rate, failures and, for --classify, accuracy."""
    pictures = open_images(paths)
    stream = stream_name(paths)
    with Decoder(sending.limits) as decoder:
        items = bounded_pictures(pictures.entries, decoder, frames)
        _, report = send(settings, sending, items, noun="pictures", stream=stream)
    skipped = [{"file": s.name, "reason": s.reason} for s in pictures.skipped]
    report = {"paths": [printable(str(path)) for path in paths], **report, "skipped": skipped}
    write_failures(report, sending.failures_to)
    emit(report, json_to, lambda: print_report(report, " ".join(report["paths"]), sending))
    return exit_status(report)
