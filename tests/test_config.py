"""Settings come from arguments, environment, file and default, in that order, and a typo is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamfeat.config import load_settings
from streamfeat.errors import ConfigError


def test_arguments_beat_environment_beats_file_beats_default(tmp_path: Path) -> None:
    """Each source overrides the ones below it, key by key."""
    file = tmp_path / "streamfeat.toml"
    file.write_text("[broker]\nheartbeat_ms = 10\ncredit_items = 20\nbatch_items = 30\n")
    environ = {
        "STREAMFEAT_CONFIG": str(file),
        "STREAMFEAT_BROKER__CREDIT_ITEMS": "21",
        "STREAMFEAT_BROKER__BATCH_ITEMS": "31",
    }
    settings = load_settings(environ, arguments={"broker": {"batch_items": 32, "credit_bytes": None}})
    broker = settings.broker
    assert (broker.heartbeat_ms, broker.credit_items, broker.batch_items) == (10, 21, 32)
    assert broker.credit_bytes == load_settings({}).broker.credit_bytes


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"STREAMFEAT_BROKER__HEARTBEET_MS": "1"}, "did you mean heartbeat_ms"),
        ({"STREAMFEAT_BROKR__HEARTBEAT_MS": "1"}, "did you mean broker"),
        ({"STREAMFEAT_HEARTBEAT_MS": "1"}, "STREAMFEAT_BROKER__HEARTBEAT_MS"),
        ({"STREAMFEAT_BROKER__HEARTBEAT_MS": "soon"}, "whole number, got 'soon'"),
        ({"STREAMFEAT_CLIENT__TIMEOUT_S": "inf"}, "above 0 and finite"),
        ({"STREAMFEAT_FLEET__WORKERS": "0"}, "above 0"),
        ({"STREAMFEAT_CONFIG": "/nowhere/streamfeat.toml"}, "/nowhere/streamfeat.toml"),
    ],
)
def test_a_wrong_setting_is_named_with_its_cure(environ: dict[str, str], said: str) -> None:
    """The message holds the setting, what came, and the nearest right one."""
    with pytest.raises(ConfigError, match=said):
        load_settings(environ)


@pytest.mark.parametrize(
    "text", ["[broker]\nheartbeat_ms = 1.5\n", "[broker]\nheartbeat_ms = true\n", "broker = 3\n", "[["]
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str) -> None:
    """A float or a bool is no whole number, a value no table, and broken TOML is said to be so."""
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"bad\.toml"):
        load_settings({}, file=file)


def test_directories_follow_systemd_then_xdg_then_home() -> None:
    """What systemd made for the unit comes first."""
    systemd = load_settings({"RUNTIME_DIRECTORY": "/run/streamfeat", "STATE_DIRECTORY": "/var/lib/streamfeat"})
    assert systemd.fleet.front == "ipc:///run/streamfeat/front.sock"
    assert systemd.fleet.bank_dir == "/var/lib/streamfeat/banks"
    xdg = load_settings({"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/x"})
    assert (xdg.fleet.run_dir, xdg.fleet.state_dir) == (
        "/run/user/7/streamfeat",
        "/home/x/.local/state/streamfeat",
    )
