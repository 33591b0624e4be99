"""Keys: made once, kept secret, and looked up in a folder that may change at any time."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.keys import Credentials, Keyring, open_holder, open_key, save_key
from tests.files import no_room


def test_a_key_is_two_files_and_the_secret_one_is_its_owners(tmp_path: Path) -> None:
    """Both halves in NAME.key, 0600; the public half and the rights in NAME.pub; nothing secret in a repr."""
    key_file, pub_file = save_key(tmp_path / "keys", "alice", ["encode", "learn"])
    key, holder = open_key(key_file), open_holder(pub_file)
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert (key.name, holder.name, sorted(holder.rights)) == ("alice", "alice", ["encode", "learn"])
    assert key.public == holder.public
    assert key.secret not in pub_file.read_text()
    assert key.secret not in repr(key)


def test_no_key_is_written_over(tmp_path: Path) -> None:
    """A second key of the same name is refused, and the first one stays, whichever of its files is left."""
    key_file, pub_file = save_key(tmp_path, "alice", [])
    before = key_file.read_text()
    with pytest.raises(ConfigError, match="there is a key called 'alice'"):
        save_key(tmp_path, "alice", [])
    assert key_file.read_text() == before
    key_file.unlink()
    with pytest.raises(ConfigError, match="there is a key"):
        save_key(tmp_path, "alice", [])
    assert pub_file.exists()


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o666])
def test_a_secret_that_others_can_read_is_none(tmp_path: Path, mode: int) -> None:
    """Refused with the command that mends it."""
    key_file, _ = save_key(tmp_path, "alice", [])
    key_file.chmod(mode)
    with pytest.raises(ConfigError, match=f"mode is {mode:04o}: chmod 600"):
        open_key(key_file)


def test_what_is_no_key_is_told(tmp_path: Path) -> None:
    """The wrong one of the two files, no file, no TOML, an unknown right, a name that is a path."""
    _, pub_file = save_key(tmp_path, "alice", ["encode"])
    with pytest.raises(ConfigError, match="no secret half"):
        open_key(pub_file)
    with pytest.raises(ConfigError, match="keygen"):
        open_key(tmp_path / "nobody.key")
    (tmp_path / "noise.pub").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not a key file"):
        open_holder(tmp_path / "noise.pub")
    (tmp_path / "king.pub").write_text(pub_file.read_text().replace("encode", "rule"))
    with pytest.raises(ConfigError, match="'rule'"):
        open_holder(tmp_path / "king.pub")
    for name in ("", "../alice", "Alice", "a" * 65):
        with pytest.raises(InvalidArgument, match="name"):
            save_key(tmp_path, name, [])
    with pytest.raises(InvalidArgument, match="'rule'"):
        save_key(tmp_path, "bob", ["rule"])


def test_both_keys_or_none(tmp_path: Path) -> None:
    """Whoever connects needs its own key and the broker's; one of them alone is a mistake."""
    key_file, pub_file = save_key(tmp_path, "alice", [])
    assert Credentials.open("", None) is None
    both = Credentials.open(key_file, pub_file)
    assert both is not None
    assert both.server == both.key.public
    for one in ((key_file, ""), ("", pub_file)):
        with pytest.raises(ConfigError, match=r"both auth\.key and auth\.server"):
            Credentials.open(*one)


def test_a_keyring_follows_its_folder(tmp_path: Path) -> None:
    """Who is added is known, who is changed has the new rights, who is removed is unknown."""
    _, pub_file = save_key(tmp_path, "alice", ["encode"])
    public = open_holder(pub_file).public
    ring = Keyring(tmp_path)
    assert ring.holder(public) == open_holder(pub_file)
    assert not ring.refresh()
    pub_file.write_text(pub_file.read_text().replace('"encode"', '"encode", "learn"'))
    assert ring.refresh()
    holder = ring.holder(public)
    assert holder is not None
    assert holder.rights == {"encode", "learn"}
    pub_file.unlink()
    assert ring.refresh()
    assert ring.holder(public) is None


def test_a_bad_file_shuts_out_its_holder_alone(tmp_path: Path) -> None:
    """It is told as a problem; a folder that is gone shuts out everybody."""
    folder = tmp_path / "authorised"
    _, alice = save_key(folder, "alice", ["encode"])
    _, bob = save_key(folder, "bob", ["encode"])
    publics = {file.stem: open_holder(file).public for file in (alice, bob)}
    ring = Keyring(folder)
    bob.write_text("rights = [")
    ring.refresh()
    assert ring.holder(publics["alice"]) is not None
    assert ring.holder(publics["bob"]) is None
    assert "bob.pub" in ring.problems[0]
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    with pytest.raises(ConfigError, match=r"auth\.authorised"):
        ring.refresh()
    assert ring.holder(publics["alice"]) is None


def test_a_key_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    """No empty file stays in the way of the next attempt."""
    with pytest.raises(ConfigError, match="File too large"), no_room():
        save_key(tmp_path, "alice", [])
    assert not list(tmp_path.iterdir())
