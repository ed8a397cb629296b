"""Snippets and tutorials run, and what the pages say of commands, keys and files is true."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from composites_testing.command_line import invoke

import composites
from composites.errors import RegistryError
from composites.registry import document
from composites.registry.validation import parse_registry
from lowering.cli.app import app
from lowering.cli.init import render_files

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TUTORIALS = ("compiler-tutorial.md", "vendor-tutorial.md", "index.md")
PAGES = [
    page
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))
    if page.name != "operators.md"  # generated
]

# Runs snippets one after the other, each with nothing turned on before it; torch starts once.
DRIVER = """
import contextlib, io, json, sys, traceback
import composites

printed = []
for name, text in json.load(sys.stdin):
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            exec(compile(text, name, "exec"), {"__name__": "__main__"})
    except Exception:
        output.write(traceback.format_exc())
        printed.append([False, output.getvalue()])
    else:
        printed.append([True, output.getvalue()])
    composites.disable()
print(json.dumps(printed))
"""


RUN_ELSEWHERE = ("live.md",)
"""Pages whose snippets need an environment without torch_xla: tests/fx runs them."""

README, *OTHERS = [p for p in PAGES if p.name not in (*TUTORIALS, *RUN_ELSEWHERE)]


@pytest.mark.parametrize(
    "pages", [[README], pytest.param(OTHERS, id="others", marks=pytest.mark.process)]
)
def test_snippets_run_and_print_what_their_comments_promise(pages: list[Path], fences: Any) -> None:
    snippets = [s for page in pages for s in fences(page, "python") if s.title is None]
    assert snippets
    result = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps([(str(snippet), snippet.text) for snippet in snippets]),
        cwd=ROOT,
        env={**os.environ, "PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        check=True,
    )
    outputs = json.loads(result.stdout.splitlines()[-1])
    for snippet, (succeeded, output) in zip(snippets, outputs, strict=True):
        assert succeeded, f"{snippet}: {output}"
        comments = " ".join(re.findall(r"#(.*)", snippet.text))
        promised = re.findall(r"\b(?:ptxla|acme)\.\w+", comments)
        missing = [name for name in promised if name not in output]
        assert not missing, f"{snippet}: {missing} not in\n{output}"
        if snippet.page.endswith("precision.md"):  # wide products cast nothing
            assert "stablehlo.dot" in output, snippet
            assert "stablehlo.convert" not in output, snippet


@pytest.mark.process
@pytest.mark.parametrize("page", TUTORIALS)
def test_tutorial(page: str, reader: Any) -> None:
    """The tutorial runs from its first line to its last, in an empty folder."""
    reader.follow(DOCS / page)


def test_registries(fences: Any, reader: Any) -> None:
    """YAML blocks are files, or entries of files, whose functions the page has too."""
    checked = 0
    for page in PAGES:
        if page.name in TUTORIALS:
            continue
        for fence in fences(page):
            if fence.title is not None:
                reader.write(fence.title, fence.text)
        for fence in fences(page, "yaml"):
            text = fence.text
            if fence.title is not None:
                continue
            if not text.startswith("schema:"):
                indented = text.replace("\n", "\n  ")
                text = f"schema: 2\nnamespace: acme\ncomposites:\n  {indented}"
            try:
                parse_registry(text, str(fence))
            except RegistryError as error:
                raise AssertionError(f"{fence}: {error}") from None
            checked += 1
    assert checked


def test_every_key_of_a_registry_is_explained() -> None:
    text = (DOCS / "registry.md").read_text(encoding="utf-8")
    headings = re.findall(r"^### (\w+)$", text, re.MULTILINE)
    keys = [
        info.alias or name
        for model in (document.RegistryDocument, document.CompositeDocument)
        for name, info in model.model_fields.items()
    ]
    assert sorted(headings) == sorted(set(keys))
    rows = re.findall(r"^\| `([\w]+)", text, re.MULTILINE)
    described = (document.AttributeDocument, document.AlternativeDocument, document.KernelDocument)
    for name, info in (item for model in described for item in model.model_fields.items()):
        assert (info.alias or name) in rows


def _mentioned_commands() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for quoted in re.findall(r"`(?:[A-Z_]+=\S+ )?composites ([^`\n]+)`", text):
            yield page.name, shlex.split(quoted)
        for line in re.findall(r"^(?:\$ )?(?:[A-Z_]+=\S+ )?composites (.+)$", text, re.MULTILINE):
            if not line.startswith("lowering"):
                yield page.name, shlex.split(line, comments=True)


def test_commands_and_options_exist() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    mentioned = list(_mentioned_commands())
    assert mentioned
    for page, (command, *words) in mentioned:
        if command.startswith("-"):
            words = [command]
            options = {"--version", "--help", "-h", "--install-completion", "--show-completion"}
        else:
            assert command in commands, f"{page}: composites {command}"
            parameters = commands[command].params
            options = {o for p in parameters for o in (*p.opts, *p.secondary_opts)} | {"--help"}
        for word in words:
            if word.startswith("-"):
                assert word in options, f"{page}: composites {command} {word}"


def test_files_that_are_mentioned_exist() -> None:
    folders = "composites|lowering|tests|examples|benchmarks|docs|src|\\.ci|\\.github"
    for page in PAGES:
        tutorial = render_files("tinychip") if page.name == "vendor-tutorial.md" else {}
        text = page.read_text(encoding="utf-8")
        for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", text):
            assert path in tutorial or (ROOT / path).exists(), f"{page.name}: {path}"


def test_architecture_has_every_package_and_every_module_a_head() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    modules = [path for top in ("composites", "lowering") for path in (ROOT / top).rglob("*.py")]
    packages = {"/".join(path.relative_to(ROOT).parts[:2]) for path in modules}
    assert [name for name in sorted(packages) if "." not in name and name not in text] == []
    heads = [(path.name, path.read_text(encoding="utf-8")) for path in modules]
    assert [name for name, text in heads if not re.match(r'(#.*\n)*"""\S', text)] == []


def test_public_names_are_on_the_api_page() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    for name in composites.__all__:
        assert name.startswith("__") or f"::: composites.{name}\n" in text


def test_extras_that_are_mentioned_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for page in PAGES:
        for extras in re.findall(r"'\.\[([\w,]+)\]'", page.read_text(encoding="utf-8")):
            for extra in extras.split(","):
                assert extra in project["optional-dependencies"], f"{page.name}: {extra}"


# ---- the README (.ci/run runs its two set-up commands) ----

TEXT = README.read_text(encoding="utf-8")


def test_the_readme_is_short_and_has_two_set_up_commands_of_one_line() -> None:
    assert len(TEXT.splitlines()) <= 140
    commands = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    assert [command.count("\n") for command in commands] == [1, 1]


def test_variables_and_links_of_the_readme_are_there() -> None:
    result = invoke("env", COLUMNS="200")
    for name in set(re.findall(r"XLA_COMPOSITE_\w+", TEXT)):
        assert name in result.stdout
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", TEXT):
        assert (ROOT / target).exists(), target
