"""What is installed: all of the library, and nothing beside it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from streamfeat import __version__

ROOT = Path(__file__).resolve().parent.parent
MAPPED = {"streamfeat": "streamfeat", "workers": "streamfeat/workers"} | {
    name: f"streamfeat/{name}" for name in ("schemas", "systemd")
}
SUFFIXES = {".py", ".typed", ".toml", ".json", ".service", ".target", ".conf", ".yml", ".html", ".css", ".js"}


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


def test_an_environment_gets_the_package_and_its_dist_info_alone(wheel: Path, tmp_path: Path) -> None:
    """Installed into an empty environment, nothing else is at the top of site-packages; the command starts from /."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True, timeout=60)
    python = tmp_path / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True, timeout=60)
    [packages] = (tmp_path / "env" / "lib").glob("*/site-packages")
    assert {path.name for path in packages.iterdir()} == {"streamfeat", f"streamfeat-{__version__}.dist-info"}
    here = [str(place) for place in sys.path if place.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(here) + "\n")
    demo = [str(python.with_name("streamfeat")), "demo", "--help"]
    # every kernel is compiled anew there: 16 s of a core, which others may use too
    done = subprocess.run(demo, capture_output=True, check=False, cwd="/", text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--folder" in done.stdout
