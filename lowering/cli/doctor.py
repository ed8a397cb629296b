"""`composites doctor`: checks of the environment, and remedies.

Steps that may end or hang a process run in another process, in the order of users' programs. That
process reports each step before and after it.
"""

import inspect
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer
from rich.table import Table
from rich.text import Text

from composites.child_processes import signal_name
from composites.errors import installing
from composites.installed import installed, requirements
from composites.settings import ALLOWLIST, CHECK_EVERY, DECOMPOSITION, REGISTRIES, STATS
from lowering.cli.errors import clear_errors, fail
from lowering.cli.output import AsJson, print_json, print_table

PACKAGE = "torch-xla-composites"
TIME_LIMIT = 180.0
"""The time limit of the steps in seconds. On an idle machine the steps take about five."""
Level = Literal["ok", "warning", "problem"]
_STYLES: Mapping[Level, str] = {"ok": "green", "warning": "yellow", "problem": "red"}
_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
"""PyTorch runs the plug-ins of `torch.backends` unless this variable has another value than 1."""
Steps: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The value of each step, or its error and the causes of the error; and its warnings."""
_PLUGIN = "lowering.autoload:autoload"
_ADVICE = (
    ("RegistryError", f"correct {REGISTRIES.name}; see `composites check FILE`"),
    ("DecompositionError", f"correct {DECOMPOSITION.name}; composites cannot be turned on"),
    ("AllowlistError", f"correct {ALLOWLIST.name}; the program stops at `import torch_xla`"),
    (CHECK_EVERY.name, f"correct {CHECK_EVERY.name}; torch.compile fails"),
    ("instead of the package", "rename it, or start the program from another folder"),
    ("backend extension", f"correct or uninstall its package; {_AUTOLOAD}=0 leaves all out"),
    ("No module named '(torch|torch_xla)'", f"for scripts, {installing('torch-xla,cli')}"),
    ("_XLAC|undefined symbol", "torch and torch_xla must be of the same release; {}"),
    ("", "reinstall the package that it names, or all in a new environment: {}"),
)
"""Patterns of errors, and their remedies. The first match counts."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a package, a variable, a file, or a step of a program."""

    level: Level
    subject: str
    text: str
    advice: str = ""
    """The remedy; empty for `ok`."""


def doctor(
    script: Annotated[
        Path | None,
        typer.Argument(help="A script whose folder is checked. It is not run.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that composites work here: versions, the plug-in, variables and registries.

    Each problem is shown with its remedy. A program that imports torch and torch_xla is started
    with the environment variables of this command. The exit code is 1 if there is a problem.

    Example: XLA_COMPOSITE_OP=gelu composites doctor train.py
    """
    if script is not None and not script.exists():
        fail(f"there is no file {script}")
    with clear_errors():
        steps = run_steps(Path.cwd() if script is None else script.absolute().parent)
        findings = [
            *installation_findings(frontend_works="value" in steps.get("composites on", ())),
            *step_findings(steps),
        ]
    counts = {noun: sum(f.level == noun for f in findings) for noun in ("problem", "warning")}
    if as_json:
        rows = [*map(asdict, findings)]
        print_json({f"{noun}s": n for noun, n in counts.items()} | {"findings": rows})
    else:
        table = Table("", "check", "result")
        for f in findings:
            advice = (f"\n-> {f.advice}", "bold") if f.advice else ""
            level = Text(f.level, _STYLES[f.level])
            table.add_row(level, Text(f.subject), Text.assemble(f.text, advice))
        print_table(table)
        typer.echo(", ".join(f"{n or 'no'} {noun}{'s' * (n != 1)}" for noun, n in counts.items()))
    if counts["problem"]:
        raise typer.Exit(1)


def take_steps(folder: str, extra: str) -> None:
    """Take the steps of a program in a folder, up to the first step that fails.

    Another process runs the source of this function, which imports nothing of this project before
    torch does, because the folder may hold other modules of the same names.
    """
    import importlib.util
    import warnings

    if not sys.flags.safe_path:  # Python does the same for a script
        sys.path[0] = folder

    def packages() -> str:
        for name in ("composites", "lowering"):
            spec = importlib.util.find_spec(name)
            path = str(spec and spec.origin)
            if not os.path.exists(os.path.join(os.path.dirname(path), "py.typed")):
                raise ImportError(f"a program imports {path} instead of the package {name}")
        return os.path.dirname(os.path.dirname(path))

    def imported(name: str) -> Callable[[], str]:
        return lambda: str(importlib.import_module(name).__file__)

    def registries() -> str:
        from composites.registry.catalog import load_catalog

        catalog = load_catalog()
        warned.extend(catalog.warnings())
        read = (f"{r.namespace} ({len(r.composites)}), {r.source}" for r in catalog.registries)
        return "\n".join(read)

    def choices() -> str:
        from composites import allowlist, decompositions, errors, settings
        from composites.registry.catalog import load_catalog

        items = allowlist.split_allowlist(settings.ALLOWLIST.read())
        catalog = load_catalog()
        names = [entry.qualified for entry in allowlist.resolve(items, catalog)]
        decompositions.choose(settings.DECOMPOSITION.read(), catalog)
        return f"{','.join(items) or 'it'} turns on {errors.listed(names, 6, 'nothing')}"

    def active() -> str:
        importlib.import_module("lowering.activation").backend()
        importlib.import_module("lowering.live.checks").check_every()
        number = len(importlib.import_module("composites").active())
        if os.environ.get("XLA_COMPOSITE_OP", "").strip() and not number:
            raise RuntimeError("nothing is on, because no plug-in read XLA_COMPOSITE_OP")
        return f"{number or 'none'} in a program that imports {framework}"

    framework = "torch" if extra == "torch" else "torch_xla"
    for step, needed, take in (
        ("packages", "sys", packages),
        ("import torch", "sys", imported("torch")),
        ("XLA_COMPOSITE_REGISTRY", "torch", registries),
        ("XLA_COMPOSITE_OP", "torch", choices),
        ("import torch_xla", "torch", imported("torch_xla")),
        ("import jax", "sys", imported("jax")),
        ("composites on", framework, active),
    ):
        if needed not in sys.modules:
            continue
        outcome: dict[str, Any] = {"step": step}
        print("\n" + json.dumps(outcome), flush=True)
        errors: list[str] = []
        warned: list[str] = []
        with warnings.catch_warnings(record=True) as caught:
            try:
                outcome["value"] = take()
            except BaseException as error:
                cause: BaseException | None = error
                while cause is not None:
                    errors.append(f"{type(cause).__name__}: {cause}")
                    hidden = cause.__suppress_context__
                    cause = cause.__cause__ or (None if hidden else cause.__context__)
        ours = (str(w.message) for w in caught if w.category.__name__ == "CompositesWarning")
        outcome |= {"errors": errors, "warnings": [*ours, *warned]}
        print("\n" + json.dumps(outcome), flush=True)
        if errors and errors[0] != f"ModuleNotFoundError: No module named {step.split()[-1]!r}":
            break


def run_steps(folder: Path) -> Steps:
    """Take the steps in another process. If a step ends it, the step's error tells how."""
    source = "from __future__ import annotations\nimport json, os, sys\n"
    call = f"take_steps({str(folder)!r}, {installed_extra()!r})"
    try:
        done = subprocess.run(
            [sys.executable, "-c", source + inspect.getsource(take_steps) + call],
            env=os.environ | {STATS.name: ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIME_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        output, end = error.stdout or b"", f"it did not end within {TIME_LIMIT:.0f} seconds"
    else:
        output, code = done.stdout, done.returncode
        how = signal_name(-code) if code < 0 else f"exit code {code}"
        last_line = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        end = f"it ended with {how}: {last_line}".removesuffix(": ")
    lines = [json.loads(line) for line in output.splitlines() if line.startswith(b'{"step": ')]
    return {line["step"]: {"errors": [end]} | line for line in lines or [{"step": "packages"}]}


def step_findings(steps: Steps) -> Iterator[Status]:
    """Make findings of the outcomes of the steps."""
    extra = installed_extra()
    for name, outcome in steps.items():
        for text in outcome.get("warnings", ()):
            yield Status("warning", name, text)
        if not outcome["errors"]:
            yield Status("ok", name, outcome["value"])
            continue
        missing = outcome["errors"][0].endswith(f"No module named {name.split()[-1]!r}")
        spared = missing and (extra in ("torch", "jax") or not ALLOWLIST.read())
        text = f"fails: {', caused by '.join(outcome['errors'])}"
        advice = next(advice for pattern, advice in _ADVICE if re.search(pattern, text))
        yield Status("warning" if spared else "problem", name, text, advice.format(install(extra)))


def installation_findings(*, frontend_works: bool) -> Iterator[Status]:
    """Check the plug-in of PyTorch, and versions against the metadata of this package.

    Args:
        frontend_works: True if composites could be turned on. The versions of torch and torch_xla
            then only cause warnings, since vendors make their own releases.
    """
    from importlib.metadata import entry_points, metadata  # slow, and `--help` imports this file

    extra, models = installed_extra(), requirements(PACKAGE, "models")
    points = [point.value for point in entry_points(group="torch.backends")]
    if installed(PACKAGE) is None or _PLUGIN not in points:
        text = f"is not installed, so nothing reads {ALLOWLIST.name}"
        yield Status("problem", PACKAGE, text, install(extra))
        return
    if os.environ.get(_AUTOLOAD, "1") != "1":
        text = f"is set, so PyTorch runs no plug-in, and nothing reads {ALLOWLIST.name}"
        advice = f"unset {_AUTOLOAD}, or call composites.enable in the program"
        yield Status("warning", _AUTOLOAD, text, advice)
    file = STATS.read()
    if file and not _can_be_written(Path(file)):
        text = f"{file} cannot be written, so the counts of a program are lost"
        yield Status("problem", STATS.name, text, "name a file in a folder that can be written")
    python = metadata(PACKAGE)["Requires-Python"]
    needed = {"Python": python} | requirements(PACKAGE, "", extra, "cli") | models
    for name, specifier in needed.items():
        version = platform.python_version() if name == "Python" else installed(name)
        if _fits(version, specifier):
            yield Status("ok", name, str(version))
        elif version or name not in models:
            spared = name in models or (frontend_works and name in ("torch", "torch-xla"))
            text = f"{version or 'nothing'} is installed; {specifier} is supported"
            advice = f"pip install '{name}{specifier}'"
            yield Status("warning" if spared else "problem", name, text, advice)


def _can_be_written(file: Path) -> bool:
    return not file.is_dir() and os.access(file if file.exists() else file.parent, os.W_OK)


def installed_extra() -> str:
    """The extra of this package for the installed frontend; empty without PyTorch."""
    torch = installed("torch")
    if torch is None:
        return ""
    extras = ("torch", "jax") if installed("torch_xla") is None else ()
    fitting = (e for e in extras if _fits(torch, requirements(PACKAGE, e).get("torch", "==0")))
    return next(fitting, "torch-xla")


def _fits(version: str | None, specifier: str) -> bool:
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return version is not None and SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidVersion:
        return False


def install(extra: str) -> str:
    """The command that reinstalls this package, with the extra for the frontend."""
    return installing(f"{extra},cli" if extra else "cli")
