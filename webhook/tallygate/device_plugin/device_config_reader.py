"""The reader of a configuration of a device plugin: a text in, its values or all findings out.

The formats of texts in the configuration of a device plugin, and their messages.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Final
from urllib.parse import urlsplit

from tallygate.accounting.name_rules import NameContext, find_name_problems
from tallygate.accounting.names import is_extended
from tallygate.device_plugin.container_allocation import CONTAINER_PLACEHOLDERS, DEVICE_PLACEHOLDERS, PLACEHOLDER
from tallygate.device_plugin.device_config import (
    GLOB_CHARACTERS,
    MAX_DEVICES,
    MAX_REPLICAS,
    DevicePluginConfig,
    DeviceResource,
)
from tallygate.device_plugin.device_inventory import DEVICE_ID, MAX_ID_LENGTH, create_device_id
from tallygate.documents.syntax_tree import Mapping as MappingNode
from tallygate.documents.syntax_tree import Node, Position, join_path
from tallygate.policy import policy_codes
from tallygate.policy.config_document import ConfigForm, create_config_error, read_config_document
from tallygate.policy.formats import FormatError, check_label_key, create_format_checker, quote_text
from tallygate.policy.lint_findings import LintFinding
from tallygate.policy.policy_builder import Fields
from tallygate.policy.schema import DocumentSchema
from tallygate.policy.suggest import format_suggestion
from tallygate.policy.written import convert, read_plain
from tallygate.server.settings.value_types import DurationError, parse_duration

SCHEMA_FILE: Final = "schema.json"
_CHECKS: Final = ("file", "command", "http")
_EXAMPLE: Final = "resources: [{name: example.com/dongle, devices: [{path: /dev/ttyUSB*}]}]"


@dataclass(frozen=True, slots=True)
class ReadConfig:
    """The resources of a file, and its findings; use the resources only if there is no finding."""

    resources: tuple[DeviceResource, ...]
    findings: tuple[LintFinding, ...]


@cache
def get_device_schema() -> DocumentSchema:
    text = files("tallygate.device_plugin").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    return DocumentSchema(
        json.loads(text),
        create_format_checker(_TEXT_CHECKS, _NUMBER_CHECKS),
        required_head="apiVersion: tallygate.dev/v1alpha1 and kind: DevicePluginConfig",
        document_form=f"a configuration must be a mapping with apiVersion, kind and resources; write {_EXAMPLE}",
    )


def read_device_config(name: str, content: bytes) -> ReadConfig:
    """Return the resources and the findings of a file of this name and content."""
    form = ConfigForm(get_device_schema(), "configuration", "resources", _EXAMPLE)
    document, findings = read_config_document(name, content, form)
    if document is None or findings:
        return ReadConfig((), findings)
    nodes = Fields(document).get_items("resources")
    resources = _build_config(document).resources
    return ReadConfig(resources, tuple(sorted(_check_resources(name, nodes, resources))))


def _check_resources(name: str, nodes: list[Node], resources: tuple[DeviceResource, ...]) -> Iterator[LintFinding]:
    """Yield the findings that the schema cannot express."""
    first_by_name: dict[str, Position] = {}
    for index, (node, resource) in enumerate(zip(nodes, resources, strict=True)):
        path = f"resources[{index}]"
        position = _get_position(node, "name")
        first = first_by_name.setdefault(resource.name, position)
        if first is not position:
            message = f'{path}.name: "{resource.name}" stands at line {first.line} already; put all its devices there'
            yield create_config_error(name, position, policy_codes.DUPLICATE_POLICY, message)
        yield from _check_sources(name, path, node, resource)
        yield from _check_health(name, f"{path}.health", Fields(node).get_node("health"))


def _check_sources(name: str, path: str, node: Node, resource: DeviceResource) -> Iterator[LintFinding]:
    first_by_id: dict[str, Position] = {}
    items = Fields(node).get_items("devices")
    for index, (item, source) in enumerate(zip(items, resource.sources, strict=True)):
        where = join_path(f"{path}.devices", index)
        if not source.path and not source.device_id:
            yield create_config_error(
                name, item.position, policy_codes.MISSING_FIELD, f"{where}: write a path or an id, as in id: seat-1"
            )
        elif source.is_glob and source.device_id:
            message = f"{where}.id: a glob may match several files, which get an ID each; remove it, or write one path"
            yield create_config_error(name, _get_position(item, "id"), policy_codes.UNKNOWN_FIELD, message)
        else:
            field = "id" if source.device_id else "path"
            key = source.path if source.is_glob else source.device_id or create_device_id(source.path)
            position = _get_position(item, field)
            first = first_by_id.setdefault(key, position)
            if first is not position:
                message = f"{where}.{field}: {quote_text(key)} stands at line {first.line} already; remove one"
                yield create_config_error(name, position, policy_codes.REPEATED, message)
    if len(items) * resource.replicas > MAX_DEVICES:
        message = (
            f"{path}.replicas: {len(items):,} devices of {resource.replicas:,} replicas are more than the "
            f"{MAX_DEVICES:,} that the kubelet's list has room for; write less"
        )
        yield create_config_error(name, _get_position(node, "replicas"), policy_codes.BAD_LENGTH, message)


def _check_health(name: str, path: str, node: Node | None) -> Iterator[LintFinding]:
    if node is None:
        return
    fields = Fields(node)
    given = [check for check in _CHECKS if fields.get_node(check) is not None]
    if not given:
        message = f"{path}: nothing is checked; write one of {', '.join(_CHECKS)}"
        yield create_config_error(name, node.position, policy_codes.MISSING_FIELD, message)
    for extra in given[1:]:
        message = f"{path}.{extra}: a device has one check, and {given[0]} is given; remove one of them"
        yield create_config_error(name, _get_position(node, extra), policy_codes.UNKNOWN_FIELD, message)


def _get_position(node: Node, field: str) -> Position:
    """Return the position of a key, or of its mapping without it."""
    entry = node.get_entry(field) if isinstance(node, MappingNode) else None
    return entry.key.position if entry else node.position


def _build_config(document: Node) -> DevicePluginConfig:
    plain = read_plain(document)
    for resource in plain["resources"]:
        health = resource.get("health", {})
        health |= {name: parse_duration(health[name]) for name in ("interval", "timeout") if name in health}
    return convert(plain, DevicePluginConfig)


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


def _check_number(least: int, most: int, subject: str, text: str) -> None:
    is_whole = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if not (is_whole and least <= int(text) <= most):
        message = f"{quote_text(text)} is not a {subject}; write a whole number from {least} to {most}"
        raise FormatError(policy_codes.BAD_QUANTITY, message)


def _check_resource_name(text: str) -> None:
    """Check a name that the kubelet accepts at a registration: one of an extended resource."""
    if is_extended(text):
        return
    problems = find_name_problems(text, NameContext.CONTAINER)
    reason = (
        problems[-1].message if problems else "it is a name of Kubernetes itself; write a domain of your own before it"
    )
    raise FormatError(policy_codes.BAD_NAME, f"the kubelet accepts no device plugin for {quote_text(text)}: {reason}")


def _check_device_id(text: str) -> None:
    if not DEVICE_ID.fullmatch(text) or len(text) > MAX_ID_LENGTH:
        raise FormatError(
            policy_codes.BAD_NAME,
            f"{quote_text(text)} is no ID of a device; write at most {MAX_ID_LENGTH} letters, digits, '-', '_' and "
            "'.', with a letter or digit at both ends, as in front-left",
        )


def _check_device_path(text: str) -> None:
    _check_absolute_path(text)
    if PLACEHOLDER.search(text):
        raise FormatError(
            policy_codes.BAD_PATH,
            f"{quote_text(text)}: a device has no placeholder; write a path or a glob, as in /dev/ttyUSB*",
        )
    if "[" in text and "]" not in text[text.index("[") :]:
        raise FormatError(
            policy_codes.BAD_PATH, f"{quote_text(text)}: the bracket is not closed; write a set as in /dev/ttyUSB[0-3]"
        )
    if not GLOB_CHARACTERS.isdisjoint(text) and "**" in text:
        raise FormatError(
            policy_codes.BAD_PATH,
            f"{quote_text(text)}: a glob does not descend; write one * for each folder, as in /dev/fpga/*/cm",
        )


def _check_absolute_path(text: str) -> None:
    if not text.startswith("/") or not text.isprintable() or ".." in text.split("/") or text == "/":
        raise FormatError(
            policy_codes.BAD_PATH,
            f"{quote_text(text)} is not an absolute path without '..'; write one as in /dev/ttyUSB0",
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
        raise FormatError(policy_codes.UNKNOWN_VALUE, "an argument of a command has no NUL; remove it")
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
            policy_codes.UNKNOWN_VALUE,
            f"{quote_text(text)} is no URL of a check; write one as in http://127.0.0.1:8080/health/{{id}}",
        )


def _check_container_text(text: str) -> None:
    """Check a text for the whole container: a value of an environment variable or of an annotation."""
    if "\0" in text:
        raise FormatError(policy_codes.UNKNOWN_VALUE, "no value has a NUL; remove it")
    for name in PLACEHOLDER.findall(text):
        if name in DEVICE_PLACEHOLDERS:
            advice = f"; write {{{name}s}}" if f"{name}s" in CONTAINER_PLACEHOLDERS else ""
            raise FormatError(
                policy_codes.UNKNOWN_VALUE,
                f"{quote_text(text)}: {{{name}}} is of one device, and a container may have several{advice}",
            )
    _check_placeholders(text, CONTAINER_PLACEHOLDERS)


def _check_placeholders(text: str, known: Iterable[str]) -> None:
    known = tuple(known)
    for name in PLACEHOLDER.findall(text):
        if name not in known:
            advice = format_suggestion(name, known) or f"; known: {', '.join(f'{{{variable}}}' for variable in known)}"
            raise FormatError(
                policy_codes.UNKNOWN_VALUE, f"{quote_text(text)}: there is no placeholder {{{name}}} here{advice}"
            )


def _check_variable(text: str) -> None:
    if not _VARIABLE.fullmatch(text):
        raise FormatError(
            policy_codes.BAD_NAME,
            f"{quote_text(text)} is not a name of an environment variable; write one as in DONGLE_PATHS",
        )


def _check_cdi_name(text: str) -> None:
    _check_placeholders(text, _ALL_PLACEHOLDERS)
    if not _CDI_NAME.fullmatch(text):
        raise FormatError(
            policy_codes.BAD_NAME,
            f"{quote_text(text)} is not a name of a CDI device; write vendor/class=name, as in example.com/fpga={{id}}",
        )


def _check_permissions(text: str) -> None:
    if not text or not _PERMISSIONS.fullmatch(text):
        raise FormatError(
            policy_codes.UNKNOWN_VALUE,
            f"{quote_text(text)} are no permissions of a device node; write r (read), w (write) and m (mknod) in this "
            "order, as in rw",
        )


def _check_duration(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise FormatError(policy_codes.BAD_QUANTITY, str(error)) from error
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        raise FormatError(
            policy_codes.BAD_QUANTITY, f"{quote_text(text)} is out of range; write a duration from 100ms to 1h"
        )


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
_NUMBER_CHECKS: dict[str, Callable[[str], None]] = {
    "replicas": partial(_check_number, 1, MAX_REPLICAS, "number of replicas"),
    "numa-node": partial(_check_number, 0, _MAX_NUMA_NODE, "NUMA node"),
    "check-count": partial(_check_number, 1, _MAX_CHECKS, "number of checks"),
}
