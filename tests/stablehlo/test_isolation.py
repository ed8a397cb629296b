"""Files that crash jaxlib, or take too much, end a process of their own and not their reader's."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from composites_testing.passes import composite_module
from composites_testing.processes import run, run_python

from lowering.stablehlo import (
    AttributeConversionError,
    BytecodeError,
    CrashError,
    Limits,
    Module,
    ParseError,
    StableHLOError,
    inspect,
    to_custom_call,
)

DATA = Path(__file__).parent / "data"
COMMAND = (sys.executable, "-m", "composites")
BLOCK = DATA / "block.mlir"
NESTED = f"module attributes {{a.b = {'[' * 10_000}{']' * 10_000}}} {{}}"
"""Well-formed text for which jaxlib's parser has too small a stack."""
CRASH = "nested.mlir: jaxlib crashed on it (SIGSEGV); the file may be damaged"
LARGE = f'module attributes {{a.b = "{"x" * 2**26}"}} {{}}'


def test_a_good_file_is_read_as_without_limits() -> None:
    expected = Module.read(BLOCK).text
    text = BLOCK.read_text()
    assert Module.read(BLOCK, limits=Limits()).text == expected
    assert Module.parse(text, limits=Limits()).text == expected
    assert Module.from_bytes(Module.parse(text).portable(), limits=Limits()).text == expected


def test_a_crash_is_an_error() -> None:
    with pytest.raises(CrashError) as caught:
        Module.parse(NESTED, "nested.mlir", limits=Limits())
    assert str(caught.value) == CRASH


def test_other_errors_are_those_of_reading_without_limits() -> None:
    with pytest.raises(ParseError, match=r"^a:2:3: .*oops"):
        Module.parse("module {\n  oops\n}", "a", limits=Limits())
    with pytest.raises(ParseError, match=r"^a:2:3: half of a surrogate pair is not text"):
        Module.parse("module {\n  \ud800\n}", "a", limits=Limits())
    for data in (b"ML\xefR", b"\xff", Module.read(BLOCK).portable().replace(b"_v1.13", b"_v9.13")):
        with pytest.raises(BytecodeError) as alone:
            Module.from_bytes(data, "a")
        with pytest.raises(BytecodeError, match=f"^{re.escape(str(alone.value))}$"):
            Module.from_bytes(data, "a", limits=Limits())


def test_limits_are_positive() -> None:
    for seconds, memory in ((0, 2**30), (float("nan"), 2**30), (1, -1)):
        with pytest.raises(StableHLOError, match=r"are not limits; give positive numbers"):
            Limits(seconds=seconds, memory=memory)


@pytest.mark.process
def test_names_that_are_not_utf8() -> None:
    """Names are read in another process, because jaxlib can abort on them."""
    done = run_python(
        "from lowering.stablehlo import *\n"
        "on_module = Module.parse(r'module attributes {\"a.\\FF\" = 1 : i32} {}')\n"
        "on_composite = Module.parse(r'''\n"
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n"
        '  %0 = stablehlo.composite "x.y" %a {composite_attributes = {"\\FF" = 1 : i32},\n'
        "    decomposition = @d} : (tensor<f32>) -> tensor<f32>\n"
        "  return %0 : tensor<f32>\n"
        "}\n"
        "func.func private @d(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }''')\n"
        "for call in (lambda: on_module.name, lambda: inspect(on_composite),\n"
        "             lambda: to_custom_call(on_composite, {'x.y': 'kernel'})):\n"
        "    try:\n"
        "        call()\n"
        "    except StableHLOError as error:\n"
        "        print(error)\n"
    )
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "the name of an attribute of builtin.module is not UTF-8; write it in UTF-8",
        "the name of an attribute of a dictionary is not UTF-8; write it in UTF-8",
        "the name of an attribute of a dictionary is not UTF-8; write it in UTF-8",
    ]


def test_locations_as_attributes() -> None:
    """MLIR has them among its attributes. jaxlib 0.10.2 has no class for them there; 0.7.1 reads
    them."""
    for value in ('loc("x":1:2)', '[loc("x":1:2)]', "{c = loc(unknown)}"):
        module = composite_module("x.y", "tensor<f32>", attributes=f"{{b = {value}}}")
        _inspect_or_refuse(module)
        with pytest.raises(StableHLOError, match="loc"):
            to_custom_call(module, {"x.y": "kernel"})
    _inspect_or_refuse(Module.parse('module attributes {a.b = loc("x":1:2)} {}'))


def _inspect_or_refuse(module: Module) -> None:
    with suppress(AttributeConversionError):
        inspect(module)


@pytest.mark.process
def test_a_process_that_fails_otherwise_is_not_called_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import threading\ndel threading.Thread")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(CrashError) as caught:
        Module.read(BLOCK, limits=Limits())
    message = str(caught.value)
    assert message.startswith(f"{BLOCK}: the process that reads it failed, perhaps whatever the")
    assert message.endswith("module 'threading' has no attribute 'Thread'")


@pytest.mark.process
def test_a_users_files_shadow_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's folder is put on the path, and may have a json.py, which this process has read."""
    for name in ("json", "threading", "numpy", "lowering", "composites"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('this is not it')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Module.read(BLOCK, limits=Limits())


@pytest.mark.process
def test_a_command_reports_a_crash(tmp_path: Path) -> None:
    (tmp_path / "nested.mlir").write_text(NESTED)
    path = os.pathsep.join(filter(None, sys.path))
    for options in ("inspect nested.mlir", "lower nested.mlir -o out.mlir"):
        done = run(*COMMAND, *options.split(), cwd=tmp_path, PYTHONPATH=path)
        assert (done.code, done.stdout, done.stderr) == (1, "", f"error: {CRASH}\n")
        assert [file.name for file in tmp_path.iterdir()] == ["nested.mlir"]


@pytest.mark.process
def test_a_command_limits_time_and_memory(tmp_path: Path) -> None:
    large = tmp_path / "large.mlir"
    large.write_text(LARGE)
    for path, option, message in (
        (BLOCK, "--seconds=0.001", "it takes longer than 0.001 seconds; it is damaged, or"),
        (large, "--memory=0.3", "it takes more than 0.3 GiB of memory; it is damaged, or"),
    ):
        done = run(*COMMAND, "inspect", str(path), option)
        assert (done.code, done.stdout) == (1, "")
        assert done.stderr.startswith(f"error: {path}: {message}")


@pytest.mark.process
def test_a_command_reads_stdin_and_writes_stdout() -> None:
    done = subprocess.run(
        [*COMMAND, "lower", "/dev/stdin", "--no-clean", "-o", "/dev/stdout"],
        input=BLOCK.read_bytes(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == Module.read(BLOCK).text
    assert done.stderr == b""


SLOW = """
import os, pathlib, time
pathlib.Path("started").write_text(str(os.getpid()))
time.sleep(600)
"""


@pytest.mark.process
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_stopped_leaves_no_process(how: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    parent = subprocess.Popen(
        [*COMMAND, "lower", str(BLOCK), "-o", "out.mlir", "--bind", "acme.twice=slow.py:f"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
        stderr=subprocess.PIPE,
        # A shell makes the jobs that it starts in the background ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    child = int(_eventually(lambda: (tmp_path / "started").read_text()))
    # A terminal interrupts all processes of the command, `kill` only the one that was started.
    os.killpg(parent.pid, how) if how == signal.SIGINT else parent.send_signal(how)
    parent.wait(30)
    _eventually(lambda: "" if Path(f"/proc/{child}").exists() else "gone")
    if how == signal.SIGINT:
        assert parent.returncode == 130
        assert b"Traceback" not in parent.stderr.read()  # type: ignore[union-attr]


def _eventually(read: Callable[[], str]) -> str:
    """The first result of `read` that is not empty."""
    for _ in range(600):
        try:
            if text := read():
                return text
        except OSError:
            pass
        time.sleep(0.05)
    raise TimeoutError
