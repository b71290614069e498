"""The reader of a configuration of a device plugin: a text in, its values or all findings out."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final

from tallygate.device_plugin.device_config import (
    MAX_DEVICES,
    ContainerTemplate,
    DeviceResource,
    DeviceSource,
    HealthCheck,
    MountTemplate,
)
from tallygate.device_plugin.device_formats import create_device_format_checker
from tallygate.device_plugin.device_inventory import create_device_id
from tallygate.documents.syntax_tree import Mapping as MappingNode
from tallygate.documents.syntax_tree import Node, Position, Scalar, join_path
from tallygate.policy.formats import quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.parse import read_policy_text
from tallygate.policy.policy_builder import Fields
from tallygate.policy.policy_codes import (
    BAD_LENGTH,
    DUPLICATE_POLICY,
    MISSING_FIELD,
    REPEATED,
    TOO_LARGE,
    UNKNOWN_FIELD,
    UNREADABLE,
)
from tallygate.policy.scalar_checks import check_ambiguous_numbers
from tallygate.policy.schema import DocumentSchema, check_shape
from tallygate.server.settings.value_types import parse_duration

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
    """Return the schema of the configuration."""
    text = files("tallygate.device_plugin").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    return DocumentSchema(
        json.loads(text),
        create_device_format_checker(),
        required_head="apiVersion: tallygate.dev/v1alpha1 and kind: DevicePluginConfig",
        document_form=f"a configuration must be a mapping with apiVersion, kind and resources; write {_EXAMPLE}",
    )


def read_device_config(name: str, content: bytes) -> ReadConfig:
    """Return the resources and the findings of a file of this name and content."""
    documents, text_findings = read_policy_text(name, content)
    filled = [document for document in documents if not (isinstance(document, Scalar) and document.value is None)]
    findings = {*text_findings, *_check_document_count(name, filled, is_read=not text_findings)}
    reported = {(finding.line, finding.column) for finding in text_findings}
    for document in filled[:1]:
        shape = check_shape(name, document, get_device_schema())
        findings.update(finding for finding in shape if (finding.line, finding.column) not in reported)
        findings.update(replace(number, severity=Severity.ERROR) for number in check_ambiguous_numbers(name, document))
    if findings:
        return ReadConfig((), tuple(sorted(findings)))
    nodes = Fields(filled[0]).get_items("resources")
    resources = tuple(_build_resource(Fields(node)) for node in nodes)
    return ReadConfig(resources, tuple(sorted(_check_resources(name, nodes, resources))))


def _check_document_count(name: str, documents: list[Node], *, is_read: bool) -> Iterator[LintFinding]:
    if not documents and is_read:
        message = f"no configuration in it; write apiVersion, kind and {_EXAMPLE}"
        yield _create_error(name, Position(1, 1), UNREADABLE, message)
    for document in documents[1:2]:
        message = "a second document; a file has one, with all its resources: move them to the first"
        yield _create_error(name, document.position, TOO_LARGE, message)


def _create_error(name: str, position: Position, code: str, message: str) -> LintFinding:
    return LintFinding.create(SourceLocation(name, *position), code, Severity.ERROR, message)


def _check_resources(name: str, nodes: list[Node], resources: tuple[DeviceResource, ...]) -> Iterator[LintFinding]:
    """Yield the findings that the schema cannot express."""
    first_by_name: dict[str, Position] = {}
    for index, (node, resource) in enumerate(zip(nodes, resources, strict=True)):
        path = f"resources[{index}]"
        position = _get_position(node, "name")
        first = first_by_name.setdefault(resource.name, position)
        if first is not position:
            message = f'{path}.name: "{resource.name}" stands at line {first.line} already; put all its devices there'
            yield _create_error(name, position, DUPLICATE_POLICY, message)
        yield from _check_sources(name, path, node, resource)
        yield from _check_health(name, f"{path}.health", Fields(node).get_node("health"))


def _check_sources(name: str, path: str, node: Node, resource: DeviceResource) -> Iterator[LintFinding]:
    first_by_id: dict[str, Position] = {}
    items = Fields(node).get_items("devices")
    for index, (item, source) in enumerate(zip(items, resource.sources, strict=True)):
        where = join_path(f"{path}.devices", index)
        if not source.path and not source.device_id:
            yield _create_error(name, item.position, MISSING_FIELD, f"{where}: write a path or an id, as in id: seat-1")
        elif source.is_glob and source.device_id:
            message = f"{where}.id: a glob may match several files, which get an ID each; remove it, or write one path"
            yield _create_error(name, _get_position(item, "id"), UNKNOWN_FIELD, message)
        else:
            field = "id" if source.device_id else "path"
            key = source.path if source.is_glob else source.device_id or create_device_id(source.path)
            position = _get_position(item, field)
            first = first_by_id.setdefault(key, position)
            if first is not position:
                message = f"{where}.{field}: {quote_text(key)} stands at line {first.line} already; remove one"
                yield _create_error(name, position, REPEATED, message)
    if len(items) * resource.replicas > MAX_DEVICES:
        message = (
            f"{path}.replicas: {len(items):,} devices of {resource.replicas:,} replicas are more than the "
            f"{MAX_DEVICES:,} that the kubelet's list has room for; write less"
        )
        yield _create_error(name, _get_position(node, "replicas"), BAD_LENGTH, message)


def _check_health(name: str, path: str, node: Node | None) -> Iterator[LintFinding]:
    if node is None:
        return
    fields = Fields(node)
    given = [check for check in _CHECKS if fields.get_node(check) is not None]
    if not given:
        message = f"{path}: nothing is checked; write one of {', '.join(_CHECKS)}"
        yield _create_error(name, node.position, MISSING_FIELD, message)
    for extra in given[1:]:
        message = f"{path}.{extra}: a device has one check, and {given[0]} is given; remove one of them"
        yield _create_error(name, _get_position(node, extra), UNKNOWN_FIELD, message)


def _get_position(node: Node, field: str) -> Position:
    """Return the position of a key, or of its mapping without it."""
    entry = node.get_entry(field) if isinstance(node, MappingNode) else None
    return entry.key.position if entry else node.position


def _build_resource(fields: Fields) -> DeviceResource:
    health = fields.get_node("health")
    return DeviceResource(
        name=fields.get_text("name"),
        sources=tuple(_build_source(Fields(node)) for node in fields.get_items("devices")),
        replicas=int(fields.get_text("replicas", "1")),
        container=_build_container(fields.get_fields("container")),
        health=None if health is None else _build_health(Fields(health)),
    )


def _build_source(fields: Fields) -> DeviceSource:
    numa = fields.get_text("numa")
    return DeviceSource(fields.get_text("id"), fields.get_text("path"), int(numa) if numa else None)


def _build_container(fields: Fields) -> ContainerTemplate:
    mounts = (Fields(node) for node in fields.get_items("mounts"))
    return ContainerTemplate(
        path=fields.get_text("path"),
        permissions=fields.get_text("permissions", "rw"),
        mounts=tuple(
            MountTemplate(mount.get_text("hostPath"), mount.get_text("path"), mount.get_flag("readOnly", default=True))
            for mount in mounts
        ),
        env=_get_texts(fields, "env"),
        annotations=_get_texts(fields, "annotations"),
        cdi_devices=fields.get_texts("cdiDevices"),
    )


def _get_texts(fields: Fields, name: str) -> Mapping[str, str]:
    return fields.get_fields(name).get_pairs()


def _build_health(fields: Fields) -> HealthCheck:
    defaults = HealthCheck()
    return HealthCheck(
        file=fields.get_text("file"),
        command=fields.get_texts("command"),
        http=fields.get_text("http"),
        interval=parse_duration(fields.get_text("interval", f"{defaults.interval}s")),
        timeout=parse_duration(fields.get_text("timeout", f"{defaults.timeout}s")),
        failures=int(fields.get_text("failures", str(defaults.failures))),
        successes=int(fields.get_text("successes", str(defaults.successes))),
    )
