"""Writing HLO as protobuf bytes, from instructions that are serialized already.

The fields of a message may come in any order, so what names an instruction is put behind the rest
of it. This saves setting these fields, copying the messages and serializing them a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_BYTES = 2
"""The wire type of everything that is written with its length in front."""


def computation(
    head: Any, instructions: Sequence[bytes], operands: Sequence[Sequence[int]], first_id: int
) -> bytes:
    """A computation; `operands` are places in it, and ids are counted from `first_id`."""
    parts = [head.SerializeToString()]
    ids = [varint(first_id + place) for place in range(len(instructions))]
    for place, (instruction, inputs) in enumerate(zip(instructions, operands, strict=True)):
        name = b"i%d" % (first_id + place)
        message = instruction + _NAME + _SMALL[len(name)] + name + _ID + ids[place]
        if inputs:
            packed = b"".join([ids[operand] for operand in inputs])
            message += _OPERAND_IDS + varint(len(packed)) + packed
        parts += (_INSTRUCTION, varint(len(message)), message)
    return b"".join(parts)


def module(head: Any, computations: Iterable[bytes]) -> bytes:
    """A module of serialized computations."""
    parts = [head.SerializeToString()]
    for message in computations:
        parts += (_COMPUTATION, varint(len(message)), message)
    return b"".join(parts)


def varint(number: int) -> bytes:
    """A number as protobuf writes it: seven bits a byte, the lowest first."""
    if number < 0x80:
        return _SMALL[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


_SMALL = [bytes((number,)) for number in range(0x80)]

NOT_COMPOSITE = varint(89 << 3) + b"\0"
"""Behind a serialized instruction: `is_composite` is false, whatever was said before."""

# Tags of the fields that are written here, see hlo_proto for their numbers.
_NAME = varint(1 << 3 | _BYTES)
_ID = varint(35 << 3)
_OPERAND_IDS = varint(36 << 3 | _BYTES)
_INSTRUCTION = varint(2 << 3 | _BYTES)
_COMPUTATION = varint(3 << 3 | _BYTES)
