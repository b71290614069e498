"""The types of setting values, each with a parser for text and for the values of a settings file.

Durations are in the form of Go: `10s`, `1m30s`, `250ms`.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from tallygate.accounting.cluster.pod_groups import parse_feature_gates
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.errors import TallygateError

_DURATION_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = r"(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(ns|us|µs|μs|ms|s|m|h)"
_DURATION_PARTS = re.compile(_DURATION_PART, re.ASCII)
_DURATION_PATTERN = re.compile(rf"(?:{_DURATION_PART})+", re.ASCII)
_MAX_DURATION_LENGTH = 64
_BASE_URL = re.compile(r"https://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?", re.ASCII)
_COMMON_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 :._@/-]{0,62}[A-Za-z0-9])?")  # RFC 5280, A.1: ub-common-name is 64


_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


class DurationError(TallygateError, ValueError):
    """The text is not a duration."""


def parse_duration(text: str) -> float:
    """Parse a duration like Go's `time.ParseDuration`, but without a sign, and return it in seconds.

    Raises:
        DurationError: if the text is not a duration, or is longer than 64 characters.
    """
    if text == "0":
        return 0.0
    if len(text) > _MAX_DURATION_LENGTH or not _DURATION_PATTERN.fullmatch(text):
        raise DurationError(
            f"{text[:_MAX_DURATION_LENGTH]!r} is not a duration; write a number and a unit, such as 10s or 1m30s"
        )
    return sum(float(number) * _DURATION_UNITS[unit] for number, unit in _DURATION_PARTS.findall(text))


T = TypeVar("T")

_DIGITS = re.compile(r"[0-9]{1,9}")
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """A listen address: an IP address and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ValueType(Generic[T]):
    """A type of setting values: `metavar` stands for it in help, `parse` converts a value as written.

    `parse` takes text (a flag, a variable) or a value of a TOML or YAML file; its ValueError names a valid form. A flag
    of an `is_list` type may be given several times; in a variable the elements are separated by commas.
    """

    metavar: str
    parse: Callable[[Any], T]
    is_list: bool = False


def _parse_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is not a text")
    return value.strip()


def _parse_path(value: Any) -> Path:
    return Path(_parse_text(value) if not isinstance(value, Path) else value)


def _split(value: Any, noun: str) -> Sequence[Any]:
    """Return the elements of a list, which may be a text with commas."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not parts:
        raise ValueError(f"{value!r} is not a list of {noun}")
    return parts


def _parse_paths(value: Any) -> tuple[Path, ...]:
    return tuple(_parse_path(part) for part in _split(value, "paths"))


def _parse_names(value: Any) -> tuple[str, ...]:
    names = tuple(_parse_text(part) for part in _split(value, "names"))
    for name in names:
        if not _COMMON_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a common name of letters, digits, spaces and :._@/-")
    return names


def _parse_header(value: Any) -> str:
    name = _parse_text(value)
    if not _HEADER.fullmatch(name):
        raise ValueError(f"{value!r} is not the name of a header, of letters, digits and hyphens")
    return name


def _parse_count(value: Any) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r} is not a whole number of at least 1")
    return value


def _parse_duration_value(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a duration; write a number and a unit, such as 10s or 1m30s")  # noqa: TRY004 - see Kind.read
    return parse_duration(value)


def _parse_size(value: Any) -> int:
    try:
        quantity = Quantity.parse(str(value))
    except QuantityError:
        quantity = Quantity.from_int(0)
    if isinstance(value, bool) or quantity.sign != 1 or not quantity.is_whole:
        raise ValueError(f"{value!r} is not a number of bytes; write it as 8Mi or 1000000")
    return quantity.value()


def _parse_address(value: Any) -> Address:
    host, colon, port = str(value).rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        address = None
    if not colon or address is None or not (_DIGITS.fullmatch(port) and int(port) <= _MAX_PORT):
        raise ValueError(f"{value!r} is not an IP address and a port, such as 0.0.0.0:8443 or [::]:8443")
    return Address(str(address), int(port))


def create_choice(*choices: str) -> ValueType[str]:
    """Return a type whose values are the given words."""

    def parse(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return str(value)

    return ValueType("|".join(choices), parse)


def _parse_base_url(value: Any) -> str:
    text = _parse_text(value).rstrip("/")
    if not _BASE_URL.fullmatch(text):
        raise ValueError(f"{value!r} is not an address of HTTPS, such as https://gate.example.com")
    return text


NAME = ValueType("NAME", _parse_text)
SECRET = ValueType("NAMESPACE/NAME", _parse_text)
URL = ValueType("URL", _parse_text)
FEATURE_GATES = ValueType("GATE=true,…", lambda value: parse_feature_gates(_parse_text(value)))
BASE_URL = ValueType("URL", _parse_base_url)
PATH = ValueType("FILE", _parse_path)
FOLDER = ValueType("FOLDER", _parse_path)
PATHS = ValueType("PATH", _parse_paths, is_list=True)
NAMES = ValueType("NAME", _parse_names, is_list=True)
HEADER = ValueType("HEADER", _parse_header)
COUNT = ValueType("N", _parse_count)
DURATION = ValueType("DURATION", _parse_duration_value)
SIZE = ValueType("BYTES", _parse_size)
ADDRESS = ValueType("IP:PORT", _parse_address)
