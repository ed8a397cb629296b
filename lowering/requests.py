"""Requests of the program for entries to be on: by `enable`, and by the blocks of its threads.

The entries that are on belong to the process. An entry is on while `enable`, or a block of any
thread, requests it. Inside a block, `enable` and `disable` change the request of the block, so that
leaving the block undoes them; blocks of other threads stay as they are.

`RequestStack` changes them. `lowering.activation` has one for PyTorch programs, and
`lowering.jax_programs.activation` one for JAX programs.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from lowering import interrupts

Names = frozenset[str]
"""Entries, by name and version: `Composite.identity`."""

NOTHING: Names = frozenset()

Words = Mapping[str, str]
"""The decompositions that were chosen, by entry; see `composites.decompositions`."""


@dataclass(frozen=True, slots=True)
class Block:
    """A `with` block that a thread is in, or the program around all blocks."""

    thread: object = field(default_factory=threading.current_thread)
    names: Names = NOTHING
    """The names that the block requests."""
    hidden: Names = NOTHING
    """The names that were turned off inside the block, although a block around it requests them."""
    only: bool = False
    """True if only the entries that the block requests are on."""
    exporting: bool = False
    target: str | None = None
    """The consumer of the exported program; None if it is unknown."""
    words: Words = field(default_factory=dict)
    """The decompositions that the block chooses for the entries that it requests."""
    key: object = field(default_factory=object)


_PROGRAM = Block(None)
"""The block of requests of `enable` outside all blocks."""


@dataclass(frozen=True, slots=True)
class Requests:
    """All requests of the process."""

    blocks: tuple[Block, ...] = (_PROGRAM,)
    """The blocks in the order of their entry. Blocks with `only` belong to one thread."""

    @property
    def names(self) -> Names:
        """The names of the requested entries."""
        if self._scope:
            return _folded(self._scope)
        program, *blocks = self.blocks
        asked = program.names.difference(*(block.hidden for block in blocks))
        threads = {block.thread for block in blocks}
        return asked.union(*(_folded(b for b in blocks if b.thread == t) for t in threads))

    @property
    def chosen(self) -> Words:
        """The decompositions of the requested entries. The block that was entered last decides for
        the entries that it requests."""
        blocks = self._scope or self.blocks
        words = {name: word for block in blocks for name, word in block.words.items()}
        return {name: words[name] for name in sorted(self.names & words.keys())}

    @property
    def exporting(self) -> bool:
        """True if graphs are for an export."""
        return any(block.exporting for block in self._scope[:1])

    @property
    def target(self) -> str | None:
        """The consumer of the exported program; None if it is unknown."""
        return next((block.target for block in self._scope), None)

    def with_block(self, block: Block) -> Requests:
        """The requests once a block is entered."""
        return Requests((*self.blocks, block))

    def without_block(self, key: object) -> Requests:
        """The requests once a block is left."""
        return Requests(tuple(block for block in self.blocks if block.key is not key))

    def with_names(self, names: Names, thread: object, words: Words | None = None) -> Requests:
        """The requests after `enable` in a thread."""
        block = self._innermost(thread)
        changed = replace(
            block,
            names=block.names | names,
            hidden=block.hidden - names,
            words={**block.words, **(words or {})},
        )
        return self._with_changed(changed)

    def without_names(self, names: Names | None, thread: object) -> Requests:
        """The requests after `disable` in a thread. None means all names."""
        block = self._innermost(thread)
        if names is None:
            names = NOTHING.union(*(b.names for b in self.blocks))
        changed = replace(
            block,
            names=block.names - names,
            hidden=block.hidden | names,
            words={name: word for name, word in block.words.items() if name not in names},
        )
        return self._with_changed(changed)

    @property
    def _scope(self) -> tuple[Block, ...]:
        """The innermost block with `only`, if any, and the blocks of its thread inside it."""
        start = max((n for n, block in enumerate(self.blocks) if block.only), default=None)
        within = () if start is None else self.blocks[start:]
        return tuple(block for block in within if block.thread == within[0].thread)

    def _innermost(self, thread: object) -> Block:
        blocks = (block for block in reversed(self.blocks) if block.thread == thread)
        return next(blocks, self.blocks[0])

    def _with_changed(self, changed: Block) -> Requests:
        return Requests(tuple(changed if b.key is changed.key else b for b in self.blocks))


def _folded(blocks: Iterable[Block]) -> Names:
    """The names that nested blocks request together."""
    names = NOTHING
    for block in blocks:
        names = (names - block.hidden) | block.names
    return names


class RequestStack(ABC):
    """The requests of the process, which one thread changes at a time. An interrupt waits until a
    change is complete."""

    def __init__(self) -> None:
        self.requests = Requests()
        self._lock = threading.RLock()

    @abstractmethod
    def apply(self, requests: Requests) -> None:
        """Turn on the requested entries, and keep the requests. If an entry cannot be turned on,
        change nothing."""

    def checked(self, requests: Requests) -> Requests:
        """Return requests for more entries than before, if these can be on together."""
        return requests

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A context that excludes other threads, and that interrupts do not end. Import the modules
        that a change needs before entering it: their imports may turn composites on, or wait for
        another thread."""
        with self._lock, interrupts.deferred():
            yield

    def enable(self, names: Names, words: Words | None = None) -> None:
        """Request names, in the innermost block of this thread."""
        thread = threading.current_thread()
        self._change(lambda requests: self.checked(requests.with_names(names, thread, words)))

    def disable(self, names: Names | None) -> None:
        """Withdraw the request for names in the innermost block of this thread. None means all."""
        thread = threading.current_thread()
        self._change(lambda requests: requests.without_names(names, thread))

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """A context in which a block is entered."""
        try:
            self._change(lambda requests: self.checked(requests.with_block(block)))
            yield
        finally:
            try:
                self._leave(block)
            finally:
                self._leave(block)  # a second interrupt may arrive before its first line

    def _change(self, changed: Callable[[Requests], Requests]) -> None:
        with self.locked():
            self.apply(changed(self.requests))

    def _leave(self, block: Block) -> None:
        with self.locked():
            if any(b.key is block.key for b in self.requests.blocks):
                # Leave the block even if hooks cannot be replaced; the next change replaces them.
                self.requests = self.requests.without_block(block.key)
                self.apply(self.requests)
