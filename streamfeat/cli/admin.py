"""`streamfeat admin`: an operator's orders to a running fleet."""

from __future__ import annotations

import click

from streamfeat.admin import ask
from streamfeat.cli.console import emit, json_option, with_settings
from streamfeat.cli.guidance import OneOf, examples
from streamfeat.config import Settings
from streamfeat.inquiry import credentials_for
from streamfeat.wire.messages import Message


@click.command(
    help="drain WORKER, resume WORKER, reload [WORKER]: orders to a running fleet.",
    epilog=examples(
        "# the worker gives back what it has and takes nothing new",
        "streamfeat admin drain features-1",
        "streamfeat admin resume features-1",
        "# every worker looks for newer banks and models",
        "streamfeat admin reload",
    ),
)
@click.argument("act", type=OneOf(["drain", "resume", "reload"]))
@click.argument("worker", required=False)
@with_settings
@json_option
def command(act: str, worker: str | None, settings: Settings, json_to: str | None) -> None:
    """Ask at the admin socket; say which workers it is about."""
    fields = {"act": act} if worker is None else {"act": act, "worker": worker}
    endpoint = settings.fleet.admin
    report = ask(
        endpoint,
        Message("ADMIN", fields),
        timeout_s=settings.client.connect_timeout_s,
        credentials=credentials_for(endpoint, settings),
    )
    emit(report, json_to, lambda: click.echo(f"{act}: {', '.join(report['workers'])}"))
