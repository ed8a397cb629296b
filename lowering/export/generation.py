"""The two programs of a language model for generation. This module does not need torch.

On disk, the programs are a folder:

| file | content |
|---|---|
| `generation.json` | the maximal length, and the folder of each program |
| `prefill/`, `decode/` | one program each; see `program` |
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from composites.errors import ExportError, ProgramError
from lowering.export.arrays import array
from lowering.export.folders import folder_path, read_file, write_folder
from lowering.export.program import GENERATION, Program
from lowering.stablehlo import Limits, add_inputs

FORMAT = 1
PARTS = ("prefill", "decode")
TOKENS, LOGITS = "kwarg:input_ids", "out:logits"

Call: TypeAlias = Callable[..., tuple[Mapping[str, Any], Any]]
"""A function of a state and `input_ids` that returns results by name and the next state: a `Step`,
or a function that runs the program on another consumer."""


@dataclass(frozen=True)
class GenerationPrograms:
    """The programs of a causal language model with a static cache. Both take tokens (`input_ids`),
    the weights, and the cache as state (`cache:layers.0.keys`, …), and return the logits of the
    last token (`out:logits`) and the cache's next value.

    prefill, decode = programs.prefill.compile(), programs.decode.compile()
    tokens = programs.generate(prefill, decode, prefill.init(model), prompt)
    """

    prefill: Program
    """The program that takes a prompt."""
    decode: Program
    """The program that takes the next token."""
    max_length: int
    """The number of tokens that the cache holds."""

    def __post_init__(self) -> None:
        prefill, decode = (
            {value.name: value.type for value in program.inputs}
            for program in (self.prefill, self.decode)
        )
        if not (prefill.pop(TOKENS, "") and decode.pop(TOKENS, "") and prefill == decode):
            raise ProgramError(
                f"prefill and decode are not programs of one model: beside {TOKENS}, both take the"
                " same inputs"
            )

    def generate(self, prefill: Call, decode: Call, state: Any, prompt: Any) -> Any:
        """Generate tokens, and return the prompt and the new tokens as a numpy array of shape
        (batch, max_length). Each new token has the largest logit.

        Args:
            prefill: the step that `self.prefill.compile()` returns.
            decode: the step that `self.decode.compile()` returns.
            state: the state that `prefill.init` returns.
            prompt: tokens of shape (batch, length). If the length differs from that of the export,
                `decode` reads the tokens that do not fit `prefill`.

        Raises:
            ProgramError: a program is not compiled, or the prompt has another batch, or is not
                shorter than `max_length`.
        """
        if isinstance(prefill, Program) or isinstance(decode, Program):
            raise ProgramError("generate takes the steps that compile() of both programs returns")
        (prompt_type,) = (value for value in self.prefill.inputs if value.name == TOKENS)
        batch, length = prompt_type.sizes
        tokens = np.asarray(array("the prompt", prompt))
        shapes = [(batch, count) for count in range(1, self.max_length)]
        if tokens.shape not in shapes:
            raise ProgramError(
                f"the prompt must have a shape from {shapes[0]} to {shapes[-1]}; it has"
                f" {tokens.shape}"
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
        """Write both programs to a folder, completely or not at all.

        For the arguments see `Program.save`. Weights are written once, in `prefill/`.

        Raises:
            ProgramError: see `Program.save`.
        """
        programs = zip(PARTS, (self.prefill, self.decode), (weights, None), strict=True)
        files = {
            f"{part}/{name}": content
            for part, program, values in programs
            for name, content in program.files(portable=portable, weights=values).items()
        }
        described = {"format": FORMAT, "max_length": self.max_length, "programs": PARTS}
        files[GENERATION] = json.dumps(described, indent=2).encode() + b"\n"
        required = (GENERATION, *(f"{part}/" for part in PARTS))
        write_folder(folder_path(folder), files, "programs of generation", required)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, limits: Limits | None = None
    ) -> "GenerationPrograms":
        """Read a folder that `save` wrote. For the arguments see `Program.load`.

        Raises:
            ProgramError: the folder has no programs, or a program is damaged.
        """
        path = folder_path(folder)
        content = read_file(path / GENERATION)
        try:
            described = json.loads(content)
            max_length = described["max_length"]
            if described["format"] != FORMAT or type(max_length) is not int:
                raise ValueError("it is not of format 1")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ProgramError(f"{path / GENERATION} is damaged: {error}") from error
        prefill, decode = (Program.load(path / part, limits=limits) for part in PARTS)
        return cls(prefill, decode, max_length)


def with_inputs_of(other: Program, program: Program) -> Program:
    """A program that also takes the inputs that only another program of the same model reads. Its
    results of these names are the next values of these inputs.

    The first version of Mamba, for example, does not read its state when it takes a prompt.

    Raises:
        ExportError: the programs are for a mesh.
    """
    own = {value.name for value in program.inputs}
    added = [value for value in other.inputs if value.name not in own]
    if added and other.mesh is not None:
        raise ExportError(
            f"the program for a prompt does not read {added[0].name}; decode=True exports such a"
            " model without a mesh"
        )
    types = {value.name: value.type for value in added}
    outputs = [
        replace(value, updates=value.name) if types.get(value.name) == value.type else value
        for value in program.outputs
    ]
    return replace(
        program,
        module=add_inputs(program.module, list(types.values())) if added else program.module,
        inputs=(*program.inputs, *added),
        outputs=tuple(outputs),
    )
