"""`streamfeat worker features|learner|index`: one worker in this very process."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from streamfeat.bank import find_bank
from streamfeat.cli.broker import become
from streamfeat.cli.console import with_settings
from streamfeat.cli.guidance import OneOf, examples
from streamfeat.config import Settings
from streamfeat.fleet import ONE_THREAD, features_arguments, stateful_arguments


@click.command(
    help="Run one worker until SIGTERM.",
    epilog=examples(
        "streamfeat worker features --bank digits-audio",
        "streamfeat worker learner",
        "streamfeat worker index --state-dir /var/lib/streamfeat",
        "# codes of 32 bytes in place of features, in 256 lists",
        "streamfeat worker index --factory IVF256,PQ32",
    ),
)
@click.argument("role", type=OneOf(["features", "learner", "index"]))
@click.option("--name", help="Its name in the fleet; a second worker of the same name takes over. Default: the role.")
@click.option(
    "--bank", "banks", multiple=True, help="Bank to serve: a name, a hash or a directory. Default: from the settings."
)
@click.option("--factory", help="FAISS factory string of an index larger than memory. Default: from the settings.")
@with_settings
def command(
    role: str,
    name: str | None,
    banks: tuple[str, ...],
    factory: str | None,
    settings: Settings,
) -> None:
    """Become the worker: same process id, so that a service manager's notifications are right."""
    if factory is not None:
        if role != "index":
            raise click.UsageError(f"--factory is for index workers, not for {role}")
        settings = replace(settings, index=replace(settings.index, factory=factory))
    if role == "features":
        wanted = banks or tuple(settings.features.banks.split())
        if not wanted:
            raise click.UsageError("a features worker needs --bank NAME, or banks in [features] of the settings file")
        os.environ.update(ONE_THREAD)  # before NumPy is imported: fleets scale by processes
        found = [find_bank(Path(settings.fleet.bank_dir), bank) for bank in wanted]
        arguments = features_arguments(settings, name or "features", found)
        by_name = all(bank == path.name[:-13] for bank, path in zip(wanted, found, strict=True))
        become("features", arguments if by_name else [*arguments, "--pin"])
    if banks:
        raise click.UsageError(f"--bank is for features workers; {role} learns which bank its features come from")
    become(role, stateful_arguments(settings, role, name))
