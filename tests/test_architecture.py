"""Imports run one way, and some things are never there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LADDER: tuple[tuple[str, ...], ...] = (
    ("errors", "kernels", "spec", "directory", "threads"),
    (
        "config",
        "keys",
        "units",
        "seal",
        "tally",
        "signals",
        "groups",
        "templates",
        "pooling",
        "windows",
        "learn",
        "exact",
        "wire",
        "schemas",
        "microphone",
        "cuts",
        "figures",
    ),
    (
        "frontends",
        "reports",
        "logcheck",
        "featureset",
        "synth",
        "payloads",
        "endpoints",
        "multipart",
        "monitor",
        "deadletters",
        "layer2",
        "readout",
        "bankspec",
        "structured",
    ),
    ("streams", "bankstore", "featurelog", "model", "connection", "inspection", "audiostream"),
    ("logindex", "projections", "layers", "orbits", "outer", "decoding"),
    ("bank", "streamtask"),
    ("featuremap",),
    ("admin", "client", "presets", "kernel_error", "baselines", "listening", "teaching"),
    ("fleet", "asyncconnection", "delivery", "doctor", "contactsheet", "inquiry"),
    ("asyncclient", "quickstart", "sklearn", "protocols", "trials", "page", "blocks"),
    ("bench", "reproduce", "dask"),
    ("cli", "workers"),
)
LEVEL = {name: level for level, names in enumerate(LADDER) for name in names}
WITHIN_LEVEL = {
    ("frontends", "groups"),
    ("spec", "errors"),
    ("layers", "projections"),
    ("bankstore", "streams"),
    ("outer", "orbits"),
    ("bankspec", "layer2"),
    ("bank", "streamtask"),
    ("layers", "outer"),
    ("bench", "dask"),
}
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
FORBIDDEN_NAMES = {"utils", "helpers", "common", "base", "types", "misc"}


def sources() -> list[Path]:
    """Every Python file of the library and of the workers."""
    return sorted([*(ROOT / "streamfeat").rglob("*.py"), *(ROOT / "workers").rglob("*.py")])


def part_of(file: Path) -> str:
    """The rung a file stands on: its module below streamfeat, or `workers`."""
    if file.is_relative_to(ROOT / "workers"):
        return "workers"
    return file.relative_to(ROOT / "streamfeat").parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names that a file imports, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("file", sources(), ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_climb_the_ladder(file: Path) -> None:
    """A part imports only parts of lower rungs, or itself."""
    part = part_of(file)
    if part in ("__init__", "__main__"):
        return
    assert part in LEVEL, f"{part} has no rung: add it to LADDER and to CONTRIBUTING.md"
    for name in imported(ast.parse(file.read_text())):
        pieces = name.split(".")
        if pieces[0] != "streamfeat" or len(pieces) < 2 or pieces[1] == part or pieces[1] == "__version__":
            continue
        other = pieces[1]
        assert other in LEVEL, f"{file.name} imports streamfeat.{other}, which has no rung"
        assert LEVEL[other] < LEVEL[part] or (part, other) in WITHIN_LEVEL, f"{part} must not import {other}"


@pytest.mark.parametrize("file", sources(), ids=lambda f: str(f.relative_to(ROOT)))
def test_no_code_is_loaded_from_data(file: Path) -> None:
    """No pickle, no eval, no allow_pickle=True, no drawer for everything."""
    assert file.stem not in FORBIDDEN_NAMES
    tree = ast.parse(file.read_text())
    assert not {n.split(".")[0] for n in imported(tree)} & {
        "pickle",
        "cloudpickle",
        "dill",
        "shelve",
        "marshal",
        "msgpack_numpy",
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec")
            for keyword in node.keywords:
                refused = keyword.arg == "allow_pickle" and not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                )
                assert not refused, f"{file.name}:{node.lineno} allows pickle"


def test_wire_knows_only_errors() -> None:
    """The protocol can be read without the mathematics."""
    for file in (ROOT / "streamfeat" / "wire").rglob("*.py"):
        for name in imported(ast.parse(file.read_text())):
            pieces = name.split(".")
            if pieces[0] == "streamfeat" and len(pieces) > 1:
                assert pieces[1] in ("wire", "errors", "schemas"), f"{file.name} imports {name}"


def test_learn_knows_no_signal_bank_or_socket() -> None:
    """Learners take arrays, as kernels do."""
    for file in (ROOT / "streamfeat" / "learn").rglob("*.py"):
        for name in imported(ast.parse(file.read_text())):
            pieces = name.split(".")
            if pieces[0] == "streamfeat" and len(pieces) > 1:
                assert pieces[1] in ("learn", "errors", "directory", "kernels", "threads"), (
                    f"{file.name} imports {name}"
                )


def drawn() -> dict[str, str]:
    """Each folder of the tree in CONTRIBUTING.md, by its path, and the lines about what lies directly in it."""
    [tree] = re.findall(r"```\n(streamfeat/.*?)```", GUIDE, re.DOTALL)
    lines: dict[str, str] = {}
    folders = [""]
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        folders = folders[: depth + 1]
        if name.endswith("/"):
            folders.append(folders[-1] + name)
            lines[folders[-1]] = ""
        else:
            lines[folders[-1]] += line + "\n"
    return lines


def test_the_tree_of_the_guide_is_the_real_one() -> None:
    """Whatever file or folder it names is there, every part of the library is named, and some folders in full."""
    tree = drawn()
    named = {folder: set(re.findall(r"\w+\.py", text)) for folder, text in tree.items()}
    for folder, files in named.items():
        if folder not in ("tests/", "systemd/"):  # described, not listed
            assert all((ROOT / folder / file).is_file() for file in files), (folder, files)
    top = {file.name for file in (ROOT / "streamfeat").glob("[!_]*.py")}
    packages = {f"streamfeat/{file.parent.name}/" for file in (ROOT / "streamfeat").glob("*/__init__.py")}
    assert named["streamfeat/"] == top
    assert {folder for folder in tree if folder.count("/") == 2} == packages
    for folder in ("streamfeat/wire/", "streamfeat/signals/"):
        assert named[folder] == {file.name for file in (ROOT / folder).glob("[!_]*.py")}


def test_the_ladder_of_the_guide_is_this_one() -> None:
    """The rungs that CONTRIBUTING.md draws are those that are tested."""
    [text] = re.findall(r"climbs this ladder:\n\n(.*?)\n\n", GUIDE, re.DOTALL)
    rungs = re.findall(r"(\d+) ((?:[a-z_]\w*\s*)+)", text)
    assert [int(number) for number, _ in rungs] == list(range(len(LADDER)))
    assert [set(names.split()) for _, names in rungs] == [set(rung) - {"schemas"} for rung in LADDER]
