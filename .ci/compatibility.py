"""The versions with which the exhaustive tests last passed, and the page that lists them.

    PYTHON .ci/compatibility.py record STEP    # by .ci/run, with the Python that ran the step
    python .ci/compatibility.py page           # writes docs/compatibility.md
    python .ci/compatibility.py page --check   # fails if the page is not current

Each step has a file in .ci/passed. The weekly job commits the files and the page.
"""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[1]
PASSED, PAGE = ROOT / ".ci" / "passed", ROOT / "docs" / "compatibility.md"
URL = "https://github.com/torch-xla-composites/torch-xla-composites/commit"
STEPS = {
    "everything": "all tests, with torch_xla",
    "lowest_everything": "the lowest versions that are supported",
    "newest_everything": "the newest versions, with torch_xla",
    "fx_everything": "the newest PyTorch, without torch_xla",
    "fx_oldest": "the oldest PyTorch without torch_xla",
}
WITH_CONSUMERS = ("everything", "newest_everything")
"""Steps that run tests/consumers."""
FRAMEWORKS = ("torch", "torch_xla", "jax")
CONSUMERS = {
    "IREE": "iree-base-compiler",
    "LiteRT": "ai-edge-litert",
    "OpenVINO": "openvino",
}
HEAD = """# Compatibility

Once a week, CI runs the exhaustive tests with these versions. A row has the last run that passed.
`.ci/run STEP` runs one, and `pyproject.toml` has the supported ranges.
[Consumers](consumers.md) lists the errors of models on each compiler.

| step | what it runs | Python | torch | torch_xla | jax | consumers | last passed |
|---|---|---|---|---|---|---|---|
"""


def record(step: str) -> None:
    """Write the versions of this Python's packages, the date and the commit."""
    packages = [*FRAMEWORKS, *(CONSUMERS.values() if step in WITH_CONSUMERS else ())]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    run = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "versions": {name: known for name in packages if (known := installed(name))},
    }
    PASSED.mkdir(exist_ok=True)
    (PASSED / f"{step}.json").write_text(json.dumps(run, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


def installed(package: str) -> str | None:
    """The version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def page() -> str:
    """The page, with a row for each step."""
    return HEAD + "".join(f"| {' | '.join(row(step))} |\n" for step in STEPS)


def row(step: str) -> list[str]:
    """The cells of a step."""
    cells, file = [f"`{step}`", STEPS[step]], PASSED / f"{step}.json"
    if not file.is_file():
        return [*cells, *["-"] * 5, "no run is recorded"]
    run = json.loads(file.read_text(encoding="utf-8"))
    versions = run["versions"]
    consumers = [f"{name} {versions[p]}" for name, p in CONSUMERS.items() if p in versions]
    cells += [run["python"], *(versions.get(name, "-") for name in FRAMEWORKS)]
    commit = run["commit"]
    return [*cells, ", ".join(consumers) or "-", f"{run['date']} ([{commit[:9]}]({URL}/{commit}))"]


def main() -> None:
    match sys.argv[1:]:
        case ["record", step] if step in STEPS:
            record(step)
        case ["page"]:
            PAGE.write_text(page(), encoding="utf-8")
        case ["page", "--check"]:
            if PAGE.read_text(encoding="utf-8") != page():
                sys.exit(f"{PAGE} is stale; run: python .ci/compatibility.py page")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
