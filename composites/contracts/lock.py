"""Lock files: contracts as JSON.

Equal contracts have the same text. A damaged file raises one `LockError`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from composites.contracts.model import Contract, Lock, Retired, Strict
from composites.errors import LockError
from composites.files import write_atomic

FORMAT: Final = 1
_SHOWN = 3
"""The number of problems that the error for a damaged file lists."""
_HEAD = 200
"""The number of characters at the start of a lock that contain its first key, `format`."""
_MAX_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class _Document(Strict):
    """The structure of the file."""

    format: Literal[1]
    namespace: str
    made_with: dict[str, str]
    contracts: Annotated[tuple[Contract, ...], Field(max_length=100_000)]
    retired: tuple[Retired, ...] = ()


@cache
def _adapter() -> TypeAdapter[_Document]:
    return TypeAdapter(_Document)


def lock_text(lock: Lock) -> str:
    """Write a lock as JSON text.

    Each operand, attribute and call has a line of its own, so that a difference shows what changed.
    Default values are left out.
    """
    document = _Document(FORMAT, lock.namespace, lock.made_with, lock.contracts, lock.retired)
    data = _adapter().dump_python(document, exclude_defaults=True)
    lines = [f" {_json(key)}: {_json(data[key])}," for key in ("format", "namespace", "made_with")]
    contracts = ",\n".join(map(_contract_text, data["contracts"]))
    listed = f"[\n{contracts}\n ]" if contracts else "[]"
    retired = ",\n".join(f"  {_json(version)}" for version in data.get("retired", ()))
    last = [f' "contracts": {listed},', f' "retired": [\n{retired}\n ]'] if retired else []
    return "\n".join(["{", *lines, *(last or [f' "contracts": {listed}']), "}", ""])


def _contract_text(contract: Mapping[str, Any]) -> str:
    lines = []
    for key, value in contract.items():
        if value and isinstance(value, tuple) and isinstance(value[0], dict):
            items = ",\n".join(f"    {_json(item)}" for item in value)
            lines.append(f"   {_json(key)}: [\n{items}\n   ]")
        else:
            lines.append(f"   {_json(key)}: {_json(value)}")
    return "  {\n" + ",\n".join(lines) + "\n  }"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def write_lock(lock: Lock, path: Path) -> None:
    """Write a lock file atomically."""
    write_atomic(path, lock_text(lock))


def read_lock(path: Path) -> Lock:
    """Read a lock file.

    Raises:
        LockError: the file cannot be read, or is not a lock of this format.
    """
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise LockError(f"{path}: has {size} bytes, too many for a lock")
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = error.strerror if isinstance(error, OSError) else error
        raise LockError(f"{path}: cannot be read: {reason}") from error
    return parse_lock(data, str(path))


def parse_lock(data: str | bytes, source: str) -> Lock:
    """Check the text of a lock; `source` is the file name for errors.

    Raises:
        LockError: the text is not a lock of this format.
    """
    try:
        record = _adapter().validate_json(data)
    except ValidationError as error:
        raise LockError(_message(error, data, source)) from None
    keys = [(c.entry, c.composite, c.version) for c in record.contracts]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise LockError(
            f"{source}: is damaged: it has {twice[1]} version {twice[2]} of entry {twice[0]} twice;"
            f" {_remedy(source)}"
        )
    return Lock(record.namespace, record.made_with, record.contracts, record.retired, source)


def lock_schema() -> dict[str, Any]:
    """Return the JSON Schema of a lock file."""
    return _adapter().json_schema()


def _message(error: ValidationError, data: str | bytes, source: str) -> str:
    problems = error.errors(include_url=False)
    newer = next((problem["input"] for problem in problems if problem["loc"] == ("format",)), None)
    if type(newer) is int:
        return (
            f"{source}: has format {newer}, but this version of the package reads format {FORMAT};"
            " install the version that wrote it, or write the lock again"
        )
    head = data[:_HEAD]
    start = head if isinstance(head, str) else head.decode(errors="replace")
    if start.strip() and '"format"' not in start:  # nobody should remove another file
        return f"{source}: is not a lock; `composites lock` makes one"
    shown = "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'the file'}: {problem['msg']}"
        for problem in problems[:_SHOWN]
    )
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return f"{source}: is not a lock, or is damaged: {shown}{more}; {_remedy(source)}"


def _remedy(source: str) -> str:
    return f"restore it, or remove it and run `composites lock FILE -o {source}`"
