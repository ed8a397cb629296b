"""Files that are damaged at random: a command says what is wrong with them, or does its work.

The default set tries a fixed small number of files, the same ones each time. The exhaustive set
tries more, chosen at random.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowering.stablehlo import Module
from lowering.stablehlo.bindings import bytecode

DATA = Path(__file__).parent / "data"

SERVER = """
import json, os, sys
from lowering.cli.app import app

replies = os.fdopen(os.dup(1), "w")
errors = open(sys.argv[1], "w+b")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
os.dup2(errors.fileno(), 2)
for line in sys.stdin:
    os.ftruncate(2, 0)
    os.lseek(2, 0, os.SEEK_SET)
    try:
        code = app(json.loads(line), standalone_mode=False) or 0
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        code = repr(error)
    sys.stderr.flush()
    with open(sys.argv[1], errors="replace") as said:
        replies.write(json.dumps([code, said.read()]) + "\\n")
    replies.flush()
"""

COMMANDS = [
    command.split()
    for command in (
        "inspect",
        "inspect --json",
        "inspect --casts",
        "lower -o out.mlir",
        "lower -o out.mlir --decompose *",
        "lower -o out.mlirbc --no-clean --drop-cast-roundtrips --widen-dots"
        " --unmerge-batch-dimensions",
        "lower -o out.mlir --legalize-chlo --custom-call ptxla.gelu=a",
    )
]

PIECES = [
    "", "(", ")", "[", "]", "{", "}", "<", ">", '"', "%0", "%arg0", "@main", "#", "!", "!x.y", "?",
    "*", "-1", "9" * 30, "0x", "1e999", "dense<", "dense<[]>", "array<i64: ", "tensor<", "x0x",
    "f32", "bf16", "i1", "i999999", "ui8", "index", "complex<f32>", "tuple<", "none", "unit",
    "true", r"\FF", r"\00", '"\\FF" = 1, ', "\0", "\ud800", "\ufeff", "é", "loc(", "private ",
    "func.func ", "module ", "call @main(", "return", "stablehlo.composite", "stablehlo.convert",
    "stablehlo.custom_call", "mhlo.topk", "decomposition = @main", "version = -1 : i32",
    "composite_attributes = {", "[[[[", "//", "\n", "^bb0:", "{-#", "99999999x99999999x9999999999x",
]  # fmt: skip


@cache
def texts() -> list[list[str]]:
    """Small real files, in tokens."""
    paths = [path for path in sorted(DATA.glob("*.mlir")) if path.stat().st_size < 5000]
    return [re.findall(r"""[\w.]+|"[^"]*"|[@%#!]\w+|\s+|.""", path.read_text()) for path in paths]


@cache
def binaries() -> list[bytes]:
    """The same as bytecode and as portable artifacts."""
    modules = [Module.parse("".join(tokens)) for tokens in texts()]
    return [data for module in modules for data in (bytecode(module.ir), module.portable())]


@st.composite
def damaged_text(draw: st.DrawFn) -> bytes:
    """A file in which up to three tokens are something else: nothing, another one, or a piece."""
    tokens = list(draw(st.sampled_from(texts())))
    replacements = st.sampled_from(sorted(set(tokens))) | st.sampled_from(PIECES)
    for _ in range(draw(st.integers(1, 3))):
        tokens[draw(st.integers(0, len(tokens) - 1))] = draw(replacements | st.text(max_size=3))
    return "".join(tokens).encode(errors="surrogatepass")


@st.composite
def damaged_binary(draw: st.DrawFn) -> bytes:
    """A file in which up to three bytes are others, missing, or repeated."""
    binary = draw(st.sampled_from(binaries()))
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(binary) - 1))
        byte = draw(st.binary(min_size=1, max_size=1) | st.just(b"") | st.just(binary[begin:][:8]))
        binary = binary[:begin] + byte + binary[begin + 1 :]
    return binary


Command = Callable[[bytes, list[str]], None]


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """Run a command on a file in a process of its own, which no file is to crash."""
    folder = tmp_path_factory.mktemp("fuzzed")
    path = os.pathsep.join(filter(None, sys.path))

    def started() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-P", "-c", SERVER, str(folder / "errors")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": path},
            text=True,
        )

    server = started()

    def run(content: bytes, arguments: list[str]) -> None:
        nonlocal server
        if server.poll() is not None:
            server = started()
        requests, replies = server.stdin, server.stdout
        assert requests is not None
        assert replies is not None
        (folder / "file").write_bytes(content)
        requests.write(json.dumps([*arguments, "file", "--seconds=5", "--memory=2"]) + "\n")
        requests.flush()
        reply = replies.readline()
        assert reply, f"the process ended with {server.wait()}"
        code, output = json.loads(reply)
        assert "Traceback" not in output
        assert code == 0 or (code == 1 and output.startswith("error: ")), (code, output)

    yield run
    server.communicate()


quiet = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
few = settings(quiet, max_examples=40, derandomize=True)
many = settings(quiet, max_examples=1000)
damaged = given(content=damaged_text() | damaged_binary(), arguments=st.sampled_from(COMMANDS))


def damaged_files(command: Command, content: bytes, arguments: list[str]) -> None:
    command(content, arguments)


test_a_few = pytest.mark.process(few(damaged(damaged_files)))
test_many = pytest.mark.exhaustive(many(damaged(damaged_files)))
