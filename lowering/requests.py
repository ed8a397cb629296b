"""What the program asks to be on: by `enable`, and by the blocks that its threads are in.

What is on belongs to the process. An entry is on while anything asks for it: `enable`, or a block
of any thread. Inside a block, `enable` and `disable` change what the block asks for, so that
leaving the block undoes them; they touch no block of another thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

Names = frozenset[str]
"""Entries, by name and version: `Composite.identity`."""

NOTHING: Names = frozenset()

Words = Mapping[str, str]
"""The decompositions that were chosen, by entry; see `composites.decompositions`."""


@dataclass(frozen=True, slots=True)
class Block:
    """A `with` block that a thread is in."""

    thread: object
    names: Names
    """What it asks for."""
    hidden: Names = NOTHING
    """What was turned off inside it, although something around it asks for it."""
    only: bool = False
    """Whether nothing but what it asks for is on."""
    exporting: bool = False
    target: str | None = None
    """The consumer of what is exported, if it is known."""
    words: Words = field(default_factory=dict)
    """The decompositions that it chooses for what it asks for."""
    key: object = field(default_factory=object)


@dataclass(frozen=True, slots=True)
class Requests:
    """All requests of the process."""

    enabled: Names = NOTHING
    """What `enable` asked for, outside all blocks."""
    blocks: tuple[Block, ...] = ()
    """In the order in which they were entered. Those with `only` are of one thread."""
    words: Words = field(default_factory=dict)
    """The decompositions that `enable` chose, outside all blocks."""

    @property
    def names(self) -> Names:
        """The names of the entries that are to be on."""
        scope = self._scope
        if scope is not None:
            return _folded(b for b in self.blocks[scope:] if b.thread == self.blocks[scope].thread)
        found = self.enabled.difference(*(block.hidden for block in self.blocks))
        threads = {block.thread for block in self.blocks}
        return found.union(*(_folded(b for b in self.blocks if b.thread == t) for t in threads))

    @property
    def chosen(self) -> Words:
        """The decompositions of the entries that are to be on. The block that was entered last
        decides for the entries that it asks for."""
        scope = self._scope
        if scope is not None:
            thread = self.blocks[scope].thread
            layers = [b.words for b in self.blocks[scope:] if b.thread == thread]
        else:
            layers = [self.words, *(block.words for block in self.blocks)]
        found = {name: word for words in layers for name, word in words.items()}
        return {name: found[name] for name in sorted(self.names & found.keys())}

    @property
    def exporting(self) -> bool:
        """Whether graphs are for an export."""
        scope = self._scope
        return scope is not None and self.blocks[scope].exporting

    @property
    def target(self) -> str | None:
        """The consumer of what is exported, if it is known."""
        scope = self._scope
        return None if scope is None else self.blocks[scope].target

    def with_block(self, block: Block) -> Requests:
        """The requests once a block is entered."""
        return replace(self, blocks=(*self.blocks, block))

    def without_block(self, key: object) -> Requests:
        """The requests once a block is left."""
        return replace(self, blocks=tuple(block for block in self.blocks if block.key is not key))

    def with_names(self, names: Names, thread: object, words: Words | None = None) -> Requests:
        """The requests after `enable` in a thread."""
        words = {} if words is None else words
        block = self._innermost(thread)
        if block is None:
            return replace(self, enabled=self.enabled | names, words={**self.words, **words})
        changed = replace(
            block,
            names=block.names | names,
            hidden=block.hidden - names,
            words={**block.words, **words},
        )
        return self._with_changed(changed)

    def without_names(self, names: Names | None, thread: object) -> Requests:
        """The requests after `disable` in a thread. None stands for all names."""
        block = self._innermost(thread)
        if block is None:
            left = NOTHING if names is None else self.enabled - names
            words = {name: word for name, word in self.words.items() if name in left}
            return replace(self, enabled=left, words=words)
        if names is None:
            names = self.enabled.union(*(b.names for b in self.blocks))
        changed = replace(
            block,
            names=block.names - names,
            hidden=block.hidden | names,
            words={name: word for name, word in block.words.items() if name not in names},
        )
        return self._with_changed(changed)

    @property
    def _scope(self) -> int | None:
        """The position of the innermost block with `only`."""
        return max((n for n, block in enumerate(self.blocks) if block.only), default=None)

    def _innermost(self, thread: object) -> Block | None:
        return next((block for block in reversed(self.blocks) if block.thread == thread), None)

    def _with_changed(self, changed: Block) -> Requests:
        blocks = tuple(changed if b.key is changed.key else b for b in self.blocks)
        return replace(self, blocks=blocks)


def _folded(blocks: Iterable[Block]) -> Names:
    """What nested blocks ask for together."""
    found = NOTHING
    for block in blocks:
        found = (found - block.hidden) | block.names
    return found
