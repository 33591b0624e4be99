"""`streamfeat featurize`: the feature set of a corpus, through Dask; goes on where it was stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from streamfeat.blocks import Block, Done, Entry, blocks_folder, cut_blocks, is_kept, join, keep
from streamfeat.cli.choices import channels_option, frames_option, limit_options
from streamfeat.cli.console import emit, json_option, progress, with_settings
from streamfeat.cli.guidance import examples
from streamfeat.config import Settings
from streamfeat.decoding import Bounded, Decoder, Limits, bounded_pictures, bounded_recordings
from streamfeat.delivery import Failure
from streamfeat.errors import EXIT_OK, EXIT_SOME_FAILED, InvalidArgument
from streamfeat.featuremap import FeatureMap
from streamfeat.featureset import SUFFIXES, check_form
from streamfeat.presets import ensure_bank
from streamfeat.signals import open_corpus, open_images
from streamfeat.signals.corpus import Skipped, Utterance
from streamfeat.signals.pictures import Picture
from streamfeat.signals.signal import printable


@click.command(
    help="Features of recordings or pictures, with names, labels and speakers, through Dask (extra: dask). --out names "
    "a folder of .npy files, or what ends in .npy, .zarr or .parquet; finished blocks are kept in OUT/blocks, or in "
    "OUT.blocks beside it, and may be removed when all is there. A Dask scheduler must be trusted, as must whoever "
    "reaches its port: its wire uses pickles, which are programs (a fleet's does not).",
    epilog=examples(
        "streamfeat featurize tidigits --out features",
        "streamfeat featurize pictures --out features.zarr --bank digits-image",
        "# on a Dask scheduler of yours",
        "streamfeat featurize tidigits --out x.parquet --scheduler tcp://host:8786",
    ),
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="FOLDER, X.npy, X.zarr or X.parquet.")
@click.option("--bank", "--preset", "bank", help="Preset, name, hash or directory [digits-audio or digits-image].")
@click.option("--scheduler", default="local", show_default=True, metavar="local|ADDRESS", help="A Dask scheduler.")
@click.option("--block", "size", type=click.IntRange(1), default=256, show_default=True, help="Items in a block.")
@limit_options
@channels_option(default="refuse")
@frames_option
@with_settings
@json_option
def command(
    path: Path,
    out: Path,
    bank: str | None,
    scheduler: str,
    size: int,
    limits: Limits,
    channels: Any,
    frames: Any,
    settings: Settings,
    json_to: str | None,
) -> int:
    """Compute what is missing, join the blocks; report counts, rate and failures."""
    _check_out(out)
    entries, skipped = _entries(path)
    fmap = _open_bank(bank or ("digits-audio" if isinstance(entries[0], Utterance) else "digits-image"), settings)
    blocks = cut_blocks(entries, fmap.bank_hash, f"{channels} {frames}", size)
    missing = [block for block in blocks if not is_kept(blocks_folder(out), block)]
    started = time.monotonic()
    with Decoder(limits) as decoder:
        items = _bounded(entries, decoder, channels, frames)
        lost, start_s = _compute(fmap, items, missing, blocks_folder(out), scheduler)
    wall_s = time.monotonic() - started
    whole = [block for block in blocks if block.key not in lost]
    empty = np.empty((0, fmap.n_features), fmap.bank.dtype)
    failed = join(out, entries, whole, fmap.bank_hash, empty) + [failure for some in lost.values() for failure in some]
    n_missing = sum(map(len, missing))
    report = {
        "path": printable(str(path)),
        "out": printable(str(out)),
        "bank": fmap.bank_hash,
        **_counts(len(entries), len(failed), n_missing),
        "blocks": {"computed": len(missing), "kept": len(blocks) - len(missing)},
        "failed": [failure.as_dict() for failure in failed],
        "skipped": [{"file": one.name, "reason": one.reason} for one in skipped],
        "start_s": round(start_s, 3),
        "wall_s": round(wall_s, 3),
        "items_per_s": round(n_missing / (wall_s - start_s), 1) if n_missing else None,
    }
    emit(report, json_to, lambda: _print(report))
    return EXIT_SOME_FAILED if failed else EXIT_OK


def _open_bank(name: str, settings: Settings) -> FeatureMap:
    place = ensure_bank(name, Path(settings.fleet.bank_dir), say=lambda text: click.echo(text, err=True))
    return FeatureMap.open(place)


def _compute(
    fmap: FeatureMap, items: Sequence[Bounded], missing: Sequence[Block], folder: Path, scheduler: str
) -> tuple[dict[str, list[Failure]], float]:
    """Compute the missing blocks and keep each.

    Returns
    -------
    lost : dict
        By the key of a block that was lost with its workers, the failures of its items.
    start_s : float
        Until there was somebody to compute.
    """
    from streamfeat.dask import compute, connect

    lost: dict[str, list[Failure]] = {}
    started = time.monotonic()
    if not missing:
        return lost, 0.0
    with progress("items", len(items)) as advance, connect(scheduler) as client:
        start_s = time.monotonic() - started
        advance(len(items) - sum(map(len, missing)))

        def finished(number: int, done: Done | None, failed: list[Failure]) -> None:
            if done is None:
                lost[missing[number].key] = failed
            else:
                keep(folder, missing[number], done)
            advance(len(missing[number]))

        compute(client, fmap, [items[block.first : block.last] for block in missing], finished)
    return lost, start_s


def _counts(n: int, n_failed: int, n_missing: int) -> dict[str, int]:
    return {"items": n, "answered": n - n_failed, "computed": n_missing, "kept": n - n_missing}


def _check_out(out: Path) -> None:
    """Refuse what is no feature set of ours, before the work."""
    check_form(out)
    if blocks_folder(out).is_dir():
        return
    if out.suffix in SUFFIXES and out.exists():
        raise click.UsageError(f"--out {out} is there and no earlier run left it: name another")
    if out.exists() and not out.is_dir():
        raise click.UsageError(f"--out {out} is a file: name a folder, or what ends in {', '.join(SUFFIXES)}")
    if out.is_dir() and any(out.iterdir()):
        raise click.UsageError(f"--out {out} holds other things: name a new folder, or one of an earlier run")


def _entries(path: Path) -> tuple[Sequence[Entry], Sequence[Skipped]]:
    """The recordings of a corpus; where it is none, the pictures."""
    try:
        corpus = open_corpus(path)
    except InvalidArgument as error:
        pictures = open_images([path])
        if not pictures.entries:
            raise InvalidArgument(f"{path}: neither recordings nor pictures found; {error.reason}") from None
        return pictures.entries, pictures.skipped
    return corpus.utterances, corpus.skipped


def _bounded(entries: Sequence[Entry], decoder: Decoder, channels: Any, frames: Any) -> list[Bounded]:
    recordings = [entry for entry in entries if isinstance(entry, Utterance)]
    pictures = [entry for entry in entries if isinstance(entry, Picture)]
    return bounded_recordings(recordings, decoder, channels) + bounded_pictures(pictures, decoder, frames)


def _print(report: dict[str, Any]) -> None:
    click.echo(f"{report['out']}: {report['answered']} of {report['items']} items, bank {report['bank'][:12]}")
    took = f"{report['wall_s']} s ({report['start_s']} to start Dask)"
    click.echo(f"{report['computed']} computed in {took}, {report['kept']} kept from before")
    for failure in report["failed"][:10]:
        click.echo(f"failed {failure['file']}: {failure['code']}: {failure['reason']}", err=True)
    if len(report["failed"]) > 10:
        click.echo(f"and {len(report['failed']) - 10} more; --json lists them all", err=True)
