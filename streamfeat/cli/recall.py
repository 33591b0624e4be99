"""`streamfeat recall`: how many of the nearest rows an approximate index finds, beside the exact one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np

from streamfeat.cli.console import emit, json_option
from streamfeat.cli.guidance import OneOf, examples
from streamfeat.cli.verify import array_in
from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import check_features
from streamfeat.learn.distances import Metric
from streamfeat.learn.recall import exact, recall
from streamfeat.learn.recipe import N_TRAIN, Recipe


@click.command(
    help="Hold approximate indexes to the exact one (extra: faiss): some rows of FILE (.npz of `push --out`, or .npy) "
    "are searched for among the others. What a reduction loses is told too: PCA64,Flat takes 64 principal directions, "
    "RR64,Flat random ones.",
    epilog=examples(
        "streamfeat recall features.npz --factory HNSW32 --factory IVF64,PQ32",
        "# directions in place of features: principal, and random",
        "streamfeat recall features.npz --factory PCA64,Flat --factory RR64,Flat",
        "streamfeat recall rows.npy --factory IVF256,PQ32 --effort nprobe=32 --k 1",
    ),
)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--factory", "factories", multiple=True, required=True, help="Of FAISS; may be repeated.")
@click.option("--metric", type=OneOf(get_args(Metric)), default="cosine", show_default=True)
@click.option("--k", type=click.IntRange(1, 1000), default=10, show_default=True, help="Neighbours.")
@click.option("--queries", type=click.IntRange(1), default=200, show_default=True, help="Rows to be searched for.")
@click.option("--train-items", type=click.IntRange(1), default=N_TRAIN, show_default=True, help="Rows to train on.")
@click.option("--effort", default="", help="Such as nprobe=32 or efSearch=128. Default: 16 lists or 64 nodes.")
@click.option("--oversample", type=click.IntRange(1), default=5, show_default=True, help="Candidates measured, over k.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which rows are searched for.")
@json_option
def command(
    file: Path,
    factories: tuple[str, ...],
    metric: str,
    k: int,
    queries: int,
    train_items: int,
    effort: str,
    oversample: int,
    seed: int,
    json_to: str | None,
) -> None:
    """Build each, search, print a line each."""
    X = check_features(array_in(file, "features"))
    if len(X) < queries + k:
        raise InvalidArgument(f"{file}: {len(X)} rows are too few for {queries} queries and {k} neighbours; ask less")
    places = np.random.default_rng(seed).permutation(len(X))
    rows, asked = X[np.sort(places[queries:])], X[places[:queries]]
    truth = exact(rows, asked, k, metric)
    recipes = [Recipe(factory, min(train_items, len(rows)), effort, oversample) for factory in factories]
    report: dict[str, Any] = {
        "file": str(file),
        "rows": len(rows),
        "numbers": rows.shape[1],
        "metric": metric,
        "k": k,
        "queries": queries,
        "exact": {"ms_per_query": truth.ms_per_query, "bytes_per_entry": truth.bytes_per_entry},
        "indexes": [{**asdict(each), **asdict(recall(rows, asked, truth, each, metric))} for each in recipes],
    }
    emit(report, json_to, lambda: _show(report))


def _show(report: dict[str, Any]) -> None:
    """An index a line, the exact one first."""
    click.echo(
        f"{report['rows']} rows of {report['numbers']}, {report['queries']} queries, {report['metric']}; "
        "distance: mean error of the codes' own, but for a factor"
    )
    width = max(len("exact"), *(len(each["factory"]) for each in report["indexes"]))
    k = report["k"]
    click.echo(f"{'':{width}}  recall@1  recall@{k:<4}  distance  ms a query  bytes an entry  build s")
    whole = {"factory": "exact", "recall_1": 1.0, "recall_k": 1.0, "distance_error": 0.0, "build_s": 0.0}
    for each in ({**whole, **report["exact"]}, *report["indexes"]):
        click.echo(
            f"{each['factory']:{width}}  {each['recall_1']:8.4f}  {each['recall_k']:11.4f}"
            f"  {each['distance_error']:8.4f}  {each['ms_per_query']:10.3f}  {each['bytes_per_entry']:14.0f}"
            f"  {each['build_s']:7.2f}"
        )
