"""The composites in StableHLO text."""

import re
from collections import Counter

_BLOCK = re.MULTILINE | re.DOTALL


def written_composites(stablehlo: str) -> Counter[str]:
    """Composites by name, without those in the decomposition of another."""
    functions = dict(re.findall(r"^  func\.func (?:\w+ )?@([\w.]+)(.*?)^  }$", stablehlo, _BLOCK))
    counts: Counter[str] = Counter()
    pending = ["main"]
    while pending:
        body = functions.pop(pending.pop(), "")
        counts.update(re.findall(r'stablehlo\.composite "([^"]+)"', body))
        pending.extend(re.findall(r"\bcall @([\w.]+)", body))
    return counts


def decomposition_of(composite: str, stablehlo: str) -> str:
    """The decomposition of a composite that StableHLO text has once."""
    call = rf'composite "{re.escape(composite)}" .*decomposition = @([\w.]+)'
    (name,) = re.findall(call, stablehlo)
    (body,) = re.findall(rf"func private @{re.escape(name)}\((.*?)\n  }}", stablehlo, re.DOTALL)
    return str(body)
