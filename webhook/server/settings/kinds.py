"""The kinds of value that a setting can have, and how each is read from text or from a file's own value."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from webhook.accounting.quantity import Quantity
from webhook.accounting.quantity_parser import QuantityError
from webhook.server.settings.durations import DurationError, parse_duration

T = TypeVar("T")

_DIGITS = re.compile(r"[0-9]{1,9}")
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: an IP address and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """`host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of value: `metavar` stands for it in help, `read` makes one of what was written.

    `read` takes text (a flag, a variable) or what TOML or YAML made of it; its ValueError says what would pass.
    `many` kinds may be given several times as a flag, and are separated by commas in a variable.
    """

    metavar: str
    read: Callable[[Any], T]
    many: bool = False


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is not a text")
    return value.strip()


def _path(value: Any) -> Path:
    return Path(_text(value) if not isinstance(value, Path) else value)


def _paths(value: Any) -> tuple[Path, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not parts:
        raise ValueError(f"{value!r} is not a list of paths")
    return tuple(_path(part) for part in parts)


def _count(value: Any) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r} is not a whole number of at least 1")
    return value


def _duration(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a duration; write a number and a unit, such as 10s or 1m30s")  # noqa: TRY004 - see Kind.read
    try:
        return parse_duration(value)
    except DurationError as error:
        raise ValueError(str(error)) from None


def _size(value: Any) -> int:
    try:
        quantity = Quantity.parse(str(value))
    except QuantityError:
        quantity = Quantity.from_int(0)
    if isinstance(value, bool) or quantity.sign != 1 or not quantity.is_whole:
        raise ValueError(f"{value!r} is not a number of bytes; write it as 8Mi or 1000000")
    return quantity.value()


def _address(value: Any) -> Address:
    host, colon, port = str(value).rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        address = None
    if not colon or address is None or not (_DIGITS.fullmatch(port) and int(port) <= _LAST_PORT):
        raise ValueError(f"{value!r} is not an IP address and a port, such as 0.0.0.0:8443 or [::]:8443")
    return Address(str(address), int(port))


def one_of(*words: str) -> Kind[str]:
    """A kind that takes one of these words."""

    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"{value!r} is not one of {', '.join(words)}")
        return str(value)

    return Kind("|".join(words), read)


TEXT = Kind("TEXT", _text)
PATH = Kind("FILE", _path)
PATHS = Kind("PATH", _paths, many=True)
COUNT = Kind("N", _count)
DURATION = Kind("DURATION", _duration)
SIZE = Kind("BYTES", _size)
ADDRESS = Kind("IP:PORT", _address)
