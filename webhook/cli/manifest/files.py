"""Files: what the arguments of a command name, read within bounds. The only I/O of this room."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.nodes import Place

STDIN = "-"
_SUFFIXES = (".yaml", ".yml", ".json")
_TOP = Place(1, 1)


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file and what it says; `fault` says why it could not be read, and then `text` is empty."""

    name: str
    text: str
    fault: Fault | None = None


def printable(name: str) -> str:
    """A file's name as text, whatever bytes it is made of."""
    return os.fsencode(name).decode("utf-8", "replace")


def find(arguments: tuple[str, ...]) -> list[str]:
    """The files that arguments name: folders give their `.yaml`, `.yml` and `.json` files, sorted, at any depth.

    Folders whose name begins with a dot are left out, as are links to folders, which could lead in a circle.
    """
    return [name for argument in arguments for name in _below(argument)]


def _below(argument: str) -> Iterator[str]:
    if argument == STDIN or not Path(argument).is_dir():
        yield argument
        return
    for folder, folders, names in os.walk(argument):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (str(Path(folder, name)) for name in sorted(names) if name.endswith(_SUFFIXES))


def read(name: str, stdin: BinaryIO, bounds: Bounds) -> TextFile:
    """One file's text; what cannot be read comes back as a fault, so that the other files are still looked at."""
    shown = "<stdin>" if name == STDIN else printable(name)
    try:
        data = _bytes(name, stdin, bounds.size + 1)
    except OSError as error:
        return TextFile(shown, "", Fault("TG406", _TOP, f"cannot be read: {error.strerror or error}"))
    if len(data) > bounds.size:
        return TextFile(shown, "", Fault("TG402", _TOP, f"larger than {bounds.size / 1024**2:g} MiB"))
    try:
        return TextFile(shown, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        return TextFile(shown, "", _not_text(data, error.start))


def _bytes(name: str, stdin: BinaryIO, most: int) -> bytes:
    if name == STDIN:
        return stdin.read(most)
    with Path(name).open("rb") as file:
        return file.read(most)


def _not_text(data: bytes, offset: int) -> Fault:
    start = data.rfind(b"\n", 0, offset) + 1
    column = len(data[start:offset].decode("utf-8", "replace")) + 1
    place = Place(data.count(b"\n", 0, offset) + 1, column)
    return Fault("TG401", place, f"this is not UTF-8 text: byte 0x{data[offset]:02x}")
