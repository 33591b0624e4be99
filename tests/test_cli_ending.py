"""Signals that end a command: whatever runs when they come."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

IN_A_CALLBACK = """
import os, signal, sys, time
import llvmlite.binding as llvm
from streamfeat.cli.ending import take_signals

number = int(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
take_signals()
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
module = llvm.parse_assembly("define i32 @one() { ret i32 1 }")
engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())
engine.set_object_cache(lambda _module, _object: os.kill(os.getpid(), number))
try:
    engine.finalize_object()
    print("compiled", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit(130)
"""
"""LLVM calls Python when it has compiled; there the signal comes."""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_while_a_kernel_compiles_is_not_lost(number: int, status: int) -> None:
    """What would be raised in the compiler's callback, and dropped there, is raised a moment later."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_CALLBACK, str(int(number))], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, "compiled\n", "")


def test_ctrl_c_that_is_ignored_stays_ignored() -> None:
    """As a shell has it for what it runs in the background."""

    def run(before: str) -> subprocess.CompletedProcess[bytes]:
        script = f"""
import signal
from streamfeat.cli.ending import take_signals

signal.signal(signal.SIGINT, signal.{before})
take_signals()
signal.raise_signal(signal.SIGINT)
"""
        return subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, check=False)

    assert run("SIG_IGN").returncode == 0
    assert b"KeyboardInterrupt" in run("default_int_handler").stderr
