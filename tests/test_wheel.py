"""What is installed: all of the library, and nothing beside it."""

from __future__ import annotations

import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAPPED = {"streamfeat": "streamfeat", "workers": "streamfeat/workers"} | {
    name: f"streamfeat/{name}" for name in ("schemas", "systemd")
}
SUFFIXES = {".py", ".typed", ".toml", ".json", ".service", ".target", ".conf", ".yml"}


def test_the_wheel_holds_the_library_whole_and_alone(wheel: Path) -> None:
    """Every module, schema, golden frame, preset and unit of the checkout, under streamfeat/, and no other file."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = {
        f"{place}/{file.relative_to(ROOT / folder)}"
        for folder, place in MAPPED.items()
        for file in (ROOT / folder).rglob("*")
        if file.suffix in SUFFIXES
    }
    assert files == wanted
    assert {"streamfeat/py.typed", "streamfeat/presets/digits-audio.toml", "streamfeat/workers/broker.py"} <= files
