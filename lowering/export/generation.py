"""The two programs of a language model that generates. Needs no torch.

On disk they are a folder:

| file | content |
|---|---|
| `generation.json` | the maximal length, and the folder of each program |
| `prefill/`, `decode/` | a program each; see `program` |
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from composites.errors import ProgramError
from composites.files import replace_folder
from lowering.export.arrays import array
from lowering.export.manifest import Value
from lowering.export.program import Program, check_replaceable
from lowering.stablehlo import Limits

NAME = "generation.json"
FORMAT = 1
PARTS = ("prefill", "decode")
TOKENS, LOGITS = "kwarg:input_ids", "out:logits"

Call: TypeAlias = Callable[..., tuple[Mapping[str, Any], Any]]
"""A program that is called with a state and `input_ids`, and returns its results by name and the
next state: a `Step`, or what runs it elsewhere."""


@dataclass(frozen=True)
class GenerationPrograms:
    """The programs of a causal language model with a static cache. Both take tokens (`input_ids`),
    the weights, and the cache as state (`cache:layers.0.keys`, …), and return the logits of the
    last token (`out:logits`) and the cache's next value.

    prefill, decode = programs.prefill.compile(), programs.decode.compile()
    tokens = programs.generate(prefill, decode, prefill.init(model), prompt)
    """

    prefill: Program
    """Takes a prompt."""
    decode: Program
    """Takes the next token."""
    max_length: int
    """The number of tokens that the cache holds."""

    def __post_init__(self) -> None:
        caches = [_cache(program) for program in (self.prefill, self.decode)]
        if caches[0] != caches[1] or not caches[0] or None in (self._prompt, _tokens(self.decode)):
            raise ProgramError(
                "prefill and decode are not programs of one model: both take input_ids, and take"
                " and return one cache"
            )

    @property
    def _prompt(self) -> Value | None:
        return _tokens(self.prefill)

    def generate(self, prefill: Call, decode: Call, state: Any, prompt: Any) -> Any:
        """The prompt and the tokens that follow, as a numpy array of shape (batch, max_length).
        Each is the one with the largest logit.

        Args:
            prefill: the program of this name, as `prefill.compile()` returns it.
            decode: the same for the other one.
            state: of `prefill.init`.
            prompt: tokens of shape (batch, length). Where it has not the length of the export,
                `decode` reads the tokens that are too few or too many for `prefill`.

        Raises:
            ProgramError: the prompt has another batch, or is not shorter than `max_length`.
        """
        import numpy as np

        assert self._prompt is not None
        batch, length = self._prompt.sizes
        tokens = np.asarray(array("the prompt", prompt))
        if (
            tokens.ndim != 2
            or tokens.shape[0] != batch
            or not 0 < tokens.shape[1] < self.max_length
        ):
            raise ProgramError(
                f"the prompt must have the shape ({batch}, length), with a length between 1 and"
                f" {self.max_length - 1}; it has {tokens.shape}"
            )
        read = 0
        while tokens.shape[1] < self.max_length:
            begins = read == 0 and tokens.shape[1] >= length
            count = length if begins else 1
            call = prefill if begins else decode
            results, state = call(state, input_ids=tokens[:, read : read + count])
            read += count
            if read == tokens.shape[1]:
                following = np.asarray(results[LOGITS]).argmax(-1).astype(tokens.dtype)
                tokens = np.concatenate([tokens, following], 1)
        return tokens

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        portable: str | None = None,
        weights: Mapping[str, Any] | None = None,
    ) -> None:
        """Write both programs to a folder: whole, or not at all.

        Args:
            folder: what `Program.save` says of it.
            portable: as there.
            weights: as there. They are written once, in the folder of `prefill`.

        Raises:
            ProgramError: what `Program.save` refuses.
        """
        files = {
            **_under("prefill", self.prefill.files(portable=portable, weights=weights)),
            **_under("decode", self.decode.files(portable=portable)),
        }
        described = {
            "format": FORMAT,
            "max_length": self.max_length,
            "programs": {part: part for part in PARTS},
        }
        files[NAME] = json.dumps(described, indent=2).encode() + b"\n"
        required = (NAME, *(f"{part}/" for part in PARTS))
        content = "programs of generation"
        try:
            check = partial(check_replaceable, Path(folder), required, (), content)
            replace_folder(folder, files, check)
        except OSError as error:
            raise ProgramError(f"{folder} cannot be written: {error.strerror}") from error

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, limits: Limits | None = None
    ) -> GenerationPrograms:
        """Read what `save` wrote.

        Args:
            folder: that of both programs.
            limits: as `Program.load` takes them.

        Raises:
            ProgramError: there is none, or one of the programs is damaged.
        """
        path = Path(folder)
        try:
            described = json.loads((path / NAME).read_bytes())
            max_length = described["max_length"]
            if described["format"] != FORMAT or type(max_length) is not int:
                raise ValueError("it is not of format 1")
        except OSError as error:
            raise ProgramError(f"{path / NAME} cannot be read: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ProgramError(f"{path / NAME} is damaged: {error}") from error
        prefill, decode = (Program.load(path / part, limits=limits) for part in PARTS)
        return cls(prefill, decode, max_length)


def _under(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in files.items()}


def _cache(program: Program) -> dict[str, str]:
    """The types of the cache's tensors, by name: of inputs that are outputs too."""
    updated = {value.updates for value in program.outputs}
    inputs = (value for value in program.inputs if value.name.startswith("cache:"))
    return {value.name: value.type for value in inputs if value.name in updated}


def _tokens(program: Program) -> Value | None:
    return next((v for v in program.inputs if v.name == TOKENS and len(v.shape) == 2), None)
