"""The environment variables of the project. Each is declared once, with its syntax.

| variable | syntax | example |
|---|---|---|
| `XLA_COMPOSITE_OP` | comma-separated names, `namespace.*`, `all` or `-name` | `all,-softmax` |
| `XLA_COMPOSITE_DECOMPOSITION` | `fast`, `small` or `stock`; `name=fast` | `fast,gelu=stock` |
| `XLA_COMPOSITE_REGISTRY` | registry files, separated as in PATH | `a.yaml:b.yaml` |
| `XLA_COMPOSITE_LOG` | `info` or `debug` | `info` |
| `XLA_COMPOSITE_STATS` | a file | `stats.jsonl` |
| `XLA_COMPOSITE_COMPILE` | anything | `1` |
| `XLA_COMPOSITE_CHECK_EVERY` | a number of calls | `100` |
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable: its name, its meaning, and an example value for help texts."""

    name: str
    meaning: str
    example: str

    def read(self, environment: Mapping[str, str] | None = None) -> str:
        """Return the variable's text without surrounding blanks; empty if it is not set."""
        return (os.environ if environment is None else environment).get(self.name, "").strip()

    @contextmanager
    def unset(self) -> Iterator[None]:
        """Remove the variable from the environment for a `with` block."""
        text = os.environ.pop(self.name, None)
        try:
            yield
        finally:
            if text is not None:
                os.environ[self.name] = text


ALLOWLIST = Variable(
    "XLA_COMPOSITE_OP",
    "composites to turn on: comma-separated names, namespace.* or all; -name removes one",
    "gelu,softmax",
)
DECOMPOSITION = Variable(
    "XLA_COMPOSITE_DECOMPOSITION",
    "decompositions of composites: stock, fast, small, or the name of an alternative; for"
    " one entry name=fast",
    "fast",
)
REGISTRIES = Variable(
    "XLA_COMPOSITE_REGISTRY",
    f"vendor registry files, separated by {os.pathsep!r}",
    f"acme.yaml{os.pathsep}other.yaml",
)
LOG = Variable(
    "XLA_COMPOSITE_LOG",
    "messages on stderr: `info` says which calls fall back to the stock lowering, and why",
    "info",
)
STATS = Variable(
    "XLA_COMPOSITE_STATS",
    "a file to which each process appends composites.stats() as a line of JSON when it ends",
    "stats.jsonl",
)
COMPILE = Variable(
    "XLA_COMPOSITE_COMPILE",
    "if set, torch.compile uses backend='composites' instead of its default, 'inductor'",
    "1",
)
CHECK_EVERY = Variable(
    "XLA_COMPOSITE_CHECK_EVERY",
    "compare the kernels of torch.compile's graphs with decompositions at every N-th call",
    "100",
)
VARIABLES = (ALLOWLIST, DECOMPOSITION, REGISTRIES, LOG, STATS, COMPILE, CHECK_EVERY)

# The prefix of misspelled names. XLA_COMPILATION_CACHE_SIZE, for example, is torch_xla's.
_PREFIX = "XLA_COMPOS"


def registry_files() -> tuple[str, ...]:
    """Return the files that XLA_COMPOSITE_REGISTRY names, in order."""
    return tuple(part.strip() for part in REGISTRIES.read().split(os.pathsep) if part.strip())


@cache
def allowlist_at_import() -> str:
    """Return the allowlist as it was at `import torch`, which calls this function first."""
    return ALLOWLIST.read()


def warn_of_late_allowlist() -> None:
    """Warn, once per process, if XLA_COMPOSITE_OP was set after `import torch`."""
    text = ALLOWLIST.read()
    if text and not allowlist_at_import():
        _warn_of_late(text)


@cache
def _warn_of_late(text: str) -> None:
    from composites.errors import CompositesWarning

    warnings.warn(
        f"{ALLOWLIST.name}={text} was set after `import torch`, which reads it; nothing is"
        f" on. Set it before, or call composites.enable({', '.join(map(repr, text.split(',')))})",
        CompositesWarning,
        stacklevel=3,
    )


def unknown_variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return variables whose names look like variables of this project, but are not."""
    names = {variable.name for variable in VARIABLES}
    return tuple(n for n in environment if n.upper().startswith(_PREFIX) and n not in names)


@cache
def warn_of_unknown_variables() -> None:
    """Warn, once per process, about variables that nothing reads."""
    unknown = unknown_variables(os.environ)
    if not unknown:  # every `import torch` calls this, and must not import more than it needs
        return
    from composites.errors import CompositesWarning, did_you_mean

    names = [variable.name for variable in VARIABLES]
    for name in unknown:
        hint = did_you_mean(name.upper(), names) or f" (known: {', '.join(names)})"
        warnings.warn(
            f"the environment variable {name} is set, but nothing reads it{hint}",
            CompositesWarning,
            stacklevel=2,
        )
