"""The formats of texts in the configuration of a device plugin, and their messages."""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from jsonschema import FormatChecker

from tallygate.accounting.name_rules import NameContext, find_name_problems
from tallygate.accounting.names import is_extended
from tallygate.device_plugin.container_allocation import (
    CONTAINER_PLACEHOLDERS,
    DEVICE_PLACEHOLDERS,
    PLACEHOLDER,
)
from tallygate.device_plugin.device_config import GLOB_CHARACTERS, MAX_REPLICAS
from tallygate.device_plugin.device_inventory import DEVICE_ID, MAX_ID_LENGTH
from tallygate.documents.scalars import Number
from tallygate.policy.formats import FormatError, check_label_key, quote_text
from tallygate.policy.policy_codes import BAD_NAME, BAD_PATH, BAD_QUANTITY, UNKNOWN_VALUE
from tallygate.policy.suggest import format_suggestion
from tallygate.server.settings.value_types import DurationError, parse_duration

_ALL_PLACEHOLDERS: Final = (*DEVICE_PLACEHOLDERS, *CONTAINER_PLACEHOLDERS)
_CHECK_PLACEHOLDERS: Final = ("id", "path")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_CDI_NAME = re.compile(
    r"[a-z0-9A-Z](?:[-_.a-z0-9A-Z]*[a-z0-9A-Z])?/[a-zA-Z0-9](?:[-_.a-zA-Z0-9]*[a-zA-Z0-9])?=[-_.:a-zA-Z0-9{}]+"
)
_PERMISSIONS = re.compile(r"r?w?m?")
_MAX_SECONDS: Final = 3600.0
_MIN_SECONDS: Final = 0.1
_MAX_NUMA_NODE: Final = 1023
_MAX_CHECKS: Final = 100


def create_device_format_checker() -> FormatChecker:
    """Return a checker with the formats of this configuration."""
    format_checker = FormatChecker(formats=())
    for name, check in _TEXT_CHECKS.items():
        format_checker.checks(name, raises=FormatError)(_create_text_format(check))
    for name, (least, most, subject) in _NUMBER_BOUNDS.items():
        format_checker.checks(name, raises=FormatError)(_create_number_format(least, most, subject))
    return format_checker


def _create_text_format(check: Callable[[str], None]) -> Callable[[Any], bool]:
    def is_valid(instance: Any) -> bool:
        if isinstance(instance, str):
            check(instance)
        return True

    return is_valid


def _create_number_format(least: int, most: int, subject: str) -> Callable[[Any], bool]:
    def is_valid(instance: Any) -> bool:
        text = instance.text if isinstance(instance, Number) else ""
        is_whole = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        if isinstance(instance, Number) and not (is_whole and least <= int(text) <= most):
            raise FormatError(
                BAD_QUANTITY, f"{quote_text(text)} is no {subject}; write a whole number from {least} to {most}"
            )
        return True

    return is_valid


def _check_resource_name(text: str) -> None:
    """Check a name that the kubelet accepts at a registration: one of an extended resource."""
    if is_extended(text):
        return
    problems = find_name_problems(text, NameContext.CONTAINER)
    reason = (
        problems[-1].message if problems else "it is a name of Kubernetes itself; write a domain of your own before it"
    )
    raise FormatError(BAD_NAME, f"the kubelet accepts no device plugin for {quote_text(text)}: {reason}")


def _check_device_id(text: str) -> None:
    if not DEVICE_ID.fullmatch(text) or len(text) > MAX_ID_LENGTH:
        raise FormatError(
            BAD_NAME,
            f"{quote_text(text)} is no ID of a device; write at most {MAX_ID_LENGTH} letters, digits, '-', '_' and "
            "'.', with a letter or digit at both ends, as in front-left",
        )


def _check_device_path(text: str) -> None:
    _check_absolute_path(text)
    if PLACEHOLDER.search(text):
        raise FormatError(
            BAD_PATH, f"{quote_text(text)}: a device has no placeholder; write a path or a glob, as in /dev/ttyUSB*"
        )
    if "[" in text and "]" not in text[text.index("[") :]:
        raise FormatError(
            BAD_PATH, f"{quote_text(text)}: the bracket is not closed; write a set as in /dev/ttyUSB[0-3]"
        )
    if not GLOB_CHARACTERS.isdisjoint(text) and "**" in text:
        raise FormatError(
            BAD_PATH, f"{quote_text(text)}: a glob does not descend; write one * for each folder, as in /dev/fpga/*/cm"
        )


def _check_absolute_path(text: str) -> None:
    if not text.startswith("/") or not text.isprintable() or ".." in text.split("/") or text == "/":
        raise FormatError(
            BAD_PATH, f"{quote_text(text)} is no absolute path without '..'; write one as in /dev/ttyUSB0"
        )


def _check_container_path(text: str) -> None:
    _check_absolute_path(text)
    _check_placeholders(text, _ALL_PLACEHOLDERS)


def _check_checked_file(text: str) -> None:
    if text != "{path}":
        _check_absolute_path(text)
    _check_placeholders(text, _CHECK_PLACEHOLDERS)


def _check_argument(text: str) -> None:
    if "\0" in text:
        raise FormatError(UNKNOWN_VALUE, "an argument of a command has no NUL; remove it")
    _check_placeholders(text, _CHECK_PLACEHOLDERS)


def _check_url(text: str) -> None:
    _check_placeholders(text, _CHECK_PLACEHOLDERS)
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme == "http" and parts.hostname and parts.port != 0 and parts.username is None
    except ValueError:
        is_usable = False
    if not (is_usable and text.isascii() and text.isprintable() and " " not in text):
        raise FormatError(
            UNKNOWN_VALUE,
            f"{quote_text(text)} is no URL of a check; write one as in http://127.0.0.1:8080/health/{{id}}",
        )


def _check_container_text(text: str) -> None:
    """Check a text for the whole container: a value of an environment variable or of an annotation."""
    if "\0" in text:
        raise FormatError(UNKNOWN_VALUE, "no value has a NUL; remove it")
    for name in PLACEHOLDER.findall(text):
        if name in DEVICE_PLACEHOLDERS:
            advice = f"; write {{{name}s}}" if f"{name}s" in CONTAINER_PLACEHOLDERS else ""
            raise FormatError(
                UNKNOWN_VALUE,
                f"{quote_text(text)}: {{{name}}} is of one device, and a container may have several{advice}",
            )
    _check_placeholders(text, CONTAINER_PLACEHOLDERS)


def _check_placeholders(text: str, known: Iterable[str]) -> None:
    known = tuple(known)
    for name in PLACEHOLDER.findall(text):
        if name not in known:
            advice = format_suggestion(name, known) or f"; known: {', '.join(f'{{{each}}}' for each in known)}"
            raise FormatError(UNKNOWN_VALUE, f"{quote_text(text)}: there is no placeholder {{{name}}} here{advice}")


def _check_variable(text: str) -> None:
    if not _VARIABLE.fullmatch(text):
        raise FormatError(
            BAD_NAME, f"{quote_text(text)} is no name of an environment variable; write one as in DONGLE_PATHS"
        )


def _check_cdi_name(text: str) -> None:
    _check_placeholders(text, _ALL_PLACEHOLDERS)
    if not _CDI_NAME.fullmatch(text):
        raise FormatError(
            BAD_NAME,
            f"{quote_text(text)} is no name of a CDI device; write vendor/class=name, as in example.com/fpga={{id}}",
        )


def _check_permissions(text: str) -> None:
    if not text or not _PERMISSIONS.fullmatch(text):
        raise FormatError(
            UNKNOWN_VALUE,
            f"{quote_text(text)} are no permissions of a device node; write r (read), w (write) and m (mknod) in this "
            "order, as in rw",
        )


def _check_duration(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise FormatError(BAD_QUANTITY, str(error)) from error
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        raise FormatError(BAD_QUANTITY, f"{quote_text(text)} is out of range; write a duration from 100ms to 1h")


_TEXT_CHECKS: dict[str, Callable[[str], None]] = {
    "resource-name": _check_resource_name,
    "device-id": _check_device_id,
    "device-path": _check_device_path,
    "container-path": _check_container_path,
    "checked-file": _check_checked_file,
    "argument": _check_argument,
    "url": _check_url,
    "container-text": _check_container_text,
    "variable": _check_variable,
    "cdi-name": _check_cdi_name,
    "permissions": _check_permissions,
    "duration": _check_duration,
    "label-key": check_label_key,
}
_NUMBER_BOUNDS: dict[str, tuple[int, int, str]] = {
    "replicas": (1, MAX_REPLICAS, "number of replicas"),
    "numa-node": (0, _MAX_NUMA_NODE, "NUMA node"),
    "check-count": (1, _MAX_CHECKS, "number of checks"),
}
