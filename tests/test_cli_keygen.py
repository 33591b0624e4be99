"""`streamfeat keygen`."""

from __future__ import annotations

import json

from streamfeat.keys import Credentials, open_holder
from tests.terminal import Terminal


def test_keygen_makes_two_files_once(cli: Terminal) -> None:
    """JSON says where they are and what the key may do; a second time it is refused, and nothing is changed."""
    done = cli("keygen", "alice", "--dir", cli.home / "keys", "--right", "encode", "--right", "learn", "--json")
    assert done.status == 0, done
    report = json.loads(done.out)
    assert Credentials.open(report["key"], report["public"]) is not None
    assert sorted(open_holder(cli.home / "keys" / "alice.pub").rights) == report["rights"] == ["encode", "learn"]
    assert cli("keygen", "bob", "--dir", cli.home / "keys", "--json", cli.home / "bob.json").out.count("bob") == 2
    cli("keygen", "alice", "--dir", cli.home / "keys").refused(78, "there is a key called")
    cli("keygen", "eve", "--right", "rule").refused(64, "rule")
