"""The tally: what was said last is read, and any byte of it changed or cut is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.errors import ConfigError, Unavailable
from streamfeat.tally import Tally, TallyWriter, read_tally, tally_of


@settings(deadline=None, max_examples=40)
@given(tallies=st.lists(st.builds(Tally, st.integers(0, 10**12), st.integers(0, 10**12)), min_size=1, max_size=5))
def test_the_last_that_was_said_is_read(tmp_path_factory: pytest.TempPathFactory, tallies: list[Tally]) -> None:
    """Whatever was said before, and before the writer is closed."""
    log = tmp_path_factory.mktemp("tally") / "log"
    assert read_tally(log) is None
    writer = TallyWriter(log, Tally())
    for tally in tallies:
        writer.say(tally)
        assert read_tally(log) == tally
    writer.close()
    TallyWriter(log, tallies[0]).close()
    assert read_tally(log) == tallies[0]
    assert tally_of(log).stat().st_size == 64


def test_every_byte_counts(tmp_path: Path) -> None:
    """Each bit of each byte flipped, each length cut to, a byte more: refused by name, with two ways out, and kept."""
    log = tmp_path / "log"
    TallyWriter(log, Tally(120, 125)).close()
    file = tally_of(log)
    whole = file.read_bytes()
    flips = [whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :] for at in range(64) for bit in range(8)]
    for changed in (*flips, *(whole[:n] for n in range(64)), whole + b"\n"):
        file.write_bytes(changed)
        with pytest.raises(ConfigError, match=r"log\.tally is not what was written.*copy it again.*move it away"):
            read_tally(log)
        assert file.read_bytes() == changed


def test_a_full_disk_is_the_operators(tmp_path: Path) -> None:
    """The file is named, and no descriptor of it stays open."""
    log = tmp_path / "log"
    tally_of(log).symlink_to("/dev/full")
    with pytest.raises(Unavailable, match=r"log\.tally cannot be written: No space left"):
        TallyWriter(log, Tally())
    left_open = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert Path("/dev/full") not in left_open
