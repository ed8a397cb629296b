"""The fenced blocks of a page, and a way to run a tutorial as its reader does.

| fence | what a test does with it |
|---|---|
| any language with `title="FILE"` | writes the file; with `title="FILE (add)"` adds to it |
| any language with `title="FILE (part)"` | looks for these lines in the file |
| `console` | runs the lines that start with `$ `; the others must be in the output |
| `python` without a title | runs it |
"""

import contextlib
import importlib
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lowering import activation
from lowering.cli.app import app

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(
    r'^(?P<indent> *)```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^ *```$',
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Fence:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    title: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def fences(page: Path, language: str | None = None) -> list[Fence]:
    """The fences of a page, of one language or of all."""
    text = page.read_text(encoding="utf-8")
    blocks = [
        Fence(
            page.relative_to(ROOT).as_posix(),
            text.count("\n", 0, match.start()) + 1,
            match["language"],
            match["title"],
            re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE),
        )
        for match in _FENCE.finditer(text)
    ]
    return [fence for fence in blocks if language in (None, fence.language)]


def plain(text: str) -> str:
    """Text without the lines of tables, and with single blanks."""
    return " ".join(re.sub(r"[│┃┏┓┗┛┡┩└┘┌┐├┤━─╇┳┴┬]", " ", text).split())


class Reader:
    """Somebody who does what a tutorial says, in an empty folder."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, printed: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.installed = folder / "installed"
        self.variables: dict[str, object] = {"__name__": "__main__"}
        self.printed = printed
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(self.installed))
        monkeypatch.syspath_prepend(str(folder))
        for name, value in {
            "COLUMNS": "250",
            "PJRT_DEVICE": "CPU",
            "PYTHONPATH": os.pathsep.join([str(folder), str(self.installed), str(ROOT)]),
        }.items():
            monkeypatch.setenv(name, value)

    def follow(self, page: Path) -> None:
        """Write each file, run each command and each snippet, in the order of the page."""
        for fence in fences(page):
            if fence.title is not None:
                self.write(fence.title, fence.text)
            elif fence.language == "console":
                for command, shown in _commands(fence.text):
                    output = plain(self.run(command))
                    for line in shown:
                        assert plain(line) in output, f"{fence}: {command} printed:\n{output}"
            elif fence.language == "python":
                with _modules_of(self.folder):
                    exec(compile(fence.text, str(fence), "exec"), self.variables)

    def write(self, title: str, text: str) -> None:
        name = title.removesuffix(" (add)").removesuffix(" (part)")
        path = self.folder / name
        if title.endswith(" (part)"):
            assert text in path.read_text(encoding="utf-8"), f"{name} does not have:\n{text}"
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") if name != title else ""
        path.write_text(before + text, encoding="utf-8")

    def _put_first(self, folder: Path) -> None:
        """Import from this folder, in this process and in those that it starts."""
        self.monkeypatch.syspath_prepend(str(folder))
        self.monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)

    def run(self, command: str) -> str:
        """The output of a command."""
        variables, words = _assignments(shlex.split(_with_places(command)))
        self.printed.readouterr()
        with _modules_of(self.folder):
            if words[0] == "composites":  # in this process, where torch is imported already
                result = CliRunner().invoke(app, words[1:], env=variables)
                assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception}"
                return result.output + self.printed.readouterr().out
            if words[0] == "python":
                runpy.run_path(words[1], run_name="__main__")
                return self.printed.readouterr().out
        if words[0] == "cd":
            self.folder /= words[1]
            self.monkeypatch.chdir(self.folder)
            return ""
        if words[:2] == ["pip", "install"]:
            where = ["--target", str(self.installed), "--no-deps", "--no-build-isolation"]
            rest = [word for word in words[2:] if word != "-e"]
            if rest != words[2:]:
                self._put_first(self.folder / "src")
            words = [sys.executable, "-m", "pip", "install", "--quiet", *where, *rest]
        subprocess.run(words, check=True)
        return self.printed.readouterr().out


@contextlib.contextmanager
def _modules_of(folder: Path) -> Iterator[None]:
    """Modules of a folder are imported anew, since their files change between two commands."""
    importlib.invalidate_caches()
    activation.catalog.cache_clear()
    for path in folder.glob("*.py"):  # of the same name, such as the `kernels` of transformers
        sys.modules.pop(path.stem, None)
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(folder)):
            del sys.modules[name]
    activation.catalog.cache_clear()


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a console, with the lines of output that stand under it."""
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, [line for line in shown if line.strip() not in ("", "…")]


def _with_places(command: str) -> str:
    """A command with the folders that a reader puts in."""
    if "$FFI_HEADERS" in command:
        import jax

        command = command.replace("$FFI_HEADERS", jax.ffi.include_dir())
    return command.replace("$REPOSITORY", str(ROOT))


def _assignments(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """`NAME=value` at the start of a command, and the rest of it."""
    variables: dict[str, str] = {}
    while re.match(r"[A-Z_]+=", words[0]):
        name, _, value = words[0].partition("=")
        variables[name] = value
        words = words[1:]
    return variables, words


# Fixtures, because test files cannot import from here whatever way pytest imports them.


@pytest.fixture(scope="session", name="fences")
def _fences() -> Callable[..., list[Fence]]:
    return fences


@pytest.fixture
def reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Reader:
    """Somebody in an empty folder."""
    return Reader(tmp_path, monkeypatch, capfd)
