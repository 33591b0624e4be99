"""`streamfeat corpus`: made once, and told what lies there."""

from __future__ import annotations

from pathlib import Path

from tests.terminal import Terminal


def test_synth_makes_a_corpus_once(cli: Terminal) -> None:
    """A second run with the same numbers finds it there; with others it is refused, and nothing is touched."""
    out = cli.home / "made"
    numbers = ("--train-speakers", "1", "--test-speakers", "1", "--json")
    first = cli("corpus", "synth", out, *numbers)
    assert first.json == {"path": str(out), "recordings": 44, "skipped": 2}
    assert first.err == ""
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*.wav")}
    assert cli("corpus", "synth", out, *numbers).json == first.json
    assert {file: file.stat().st_mtime_ns for file in out.rglob("*.wav")} == before
    cli("corpus", "synth", out, "--train-speakers", "2").refused(64, "give another folder")


def test_list_counts_and_says_what_is_skipped(cli: Terminal, corpus: Path) -> None:
    """Layout, words, speakers; strings are skipped with their reason, or taken."""
    report = cli("corpus", "list", corpus, "--json").json
    assert (report["layout"], report["recordings"], len(report["labels"])) == ("tidigits", 66, 11)
    assert report["speakers"] == {"train/man/aa": 22, "train/woman/aa": 22, "test/man/aa": 22}
    assert len(report["skipped"]) == 2
    shown = cli("corpus", "list", corpus).out
    assert "66 recordings, 3 speakers" in shown
    assert all(f"skipped {skipped['file']}: a string of" in shown for skipped in report["skipped"])
    assert cli("corpus", "list", corpus, "--strings", "--json").json["recordings"] == 68
    cli("corpus", "list", cli.home).refused(64, "no corpus found")
