"""The choice of decompositions: from XLA_COMPOSITE_DECOMPOSITION, or `decompositions` in code, to
one word for each entry.

| item | meaning |
|---|---|
| `fast`, `small` | the alternatives with this goal, for every entry that has one |
| `blockwise` | the alternative of this name, for every entry that has it |
| `stock` | no alternative |
| `topk=fast`, `acme.*=small`, `topk=stock` | the same for the entries that a name means |

An item with a name overrides items without one, and a later item overrides an earlier one.
"""

from collections.abc import Iterator

from composites.allowlist import resolve
from composites.errors import AllowlistError, DecompositionError, did_you_mean
from composites.registry.catalog import Catalog
from composites.registry.model import GOALS, STOCK, Composite

Words = tuple[tuple[str, str], ...]
"""Pairs of an entry's identity and the word that was chosen for the entry: a goal, the name of an
alternative, or `stock`. An entry without a pair has the stock decomposition."""


def choose(text: str, catalog: Catalog) -> Words:
    """Return the words that `text` chooses.

    Raises:
        DecompositionError: `text` names an entry or an alternative that does not exist.
    """
    if not isinstance(text, str):
        raise DecompositionError(
            f"decompositions: {text!r} is not text; write 'fast', or 'topk=fast,layer_norm=stock'"
        )
    general: dict[str, str] = {}
    specific: dict[str, str] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, equals, word = map(str.strip, item.rpartition("="))
        if equals:
            specific |= dict.fromkeys(_named(item, name, word, catalog), word)
        else:
            general |= dict.fromkeys(_every(word, catalog), word)
    return tuple(sorted((general | specific).items()))


def _every(word: str, catalog: Catalog) -> Iterator[str]:
    words = [STOCK, *GOALS, *dict.fromkeys(name for entry in catalog for name in _names(entry))]
    if word not in words:
        raise DecompositionError(f"there is {_unknown(word, words)}")
    for entry in catalog:
        if word == STOCK or entry.chosen(word):
            yield entry.identity


def _named(item: str, name: str, word: str, catalog: Catalog) -> Iterator[str]:
    if name.startswith("-"):
        raise DecompositionError(f"{item}: nothing can be removed; write {name[1:]}={STOCK}")
    try:
        entries = resolve([name], catalog, every_version=True)
    except AllowlistError as error:
        raise DecompositionError(f"{item}: {error}") from None
    goals = (goal for goal in GOALS if any(entry.chosen(goal) for entry in entries))
    words = [STOCK, *goals, *dict.fromkeys(name for entry in entries for name in _names(entry))]
    if word not in words:
        if len(words) == 1:
            raise DecompositionError(
                f"{item}: {name} has no alternatives; `composites list` shows those of all entries"
            )
        raise DecompositionError(f"{item}: {name} has {_unknown(word, words)}")
    for entry in entries:
        if word == STOCK or entry.chosen(word):
            yield entry.identity


def _names(entry: Composite) -> Iterator[str]:
    """Yield the names of the alternatives that users can choose."""
    return (a.name for a in entry.alternatives if not a.is_automatic)


def _unknown(word: str, words: list[str]) -> str:
    return f"no decomposition {word!r}{did_you_mean(word, words)} (known: {', '.join(words)})"
