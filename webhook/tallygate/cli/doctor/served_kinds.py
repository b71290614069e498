"""The kinds of other projects that an API server serves: those that are read, and others that contain pod templates.

The first are found by discovery, the second by the schemas of CustomResourceDefinitions: a list `containers` whose
items have an `image`, or a field of any content that is called a template.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from tallygate.admission.workload_resources import ServedResources
from tallygate.cli.doctor.facts import ServedKind, Unavailable, UnreadKind, WorkloadFacts
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient
from tallygate.kube.discovery import Discovery
from tallygate.kube.pagination import list_raw_pages
from tallygate.policy.workload_kinds import WorkloadKind

_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PAGE_SIZE: Final = 20  # a definition with pod templates has up to a megabyte
_STATUS: Final = "status"
_TEMPLATE: Final = "template"
_NULL: Final = msgspec.Raw(b"null")

Schema = Mapping[str, Any]
"""A schema of OpenAPI v3 (JSONSchemaProps)."""


class _Schema(msgspec.Struct, rename={"content": "openAPIV3Schema"}, frozen=True):
    content: msgspec.Raw = _NULL


class _Version(msgspec.Struct, frozen=True):
    served: bool = False
    schema: _Schema = _Schema()


class _Names(msgspec.Struct, frozen=True):
    kind: str


class _Spec(msgspec.Struct, frozen=True):
    group: str
    names: _Names
    versions: list[_Version] = []


class _Definition(msgspec.Struct, frozen=True):
    spec: _Spec


_DECODER: Final = msgspec.json.Decoder(_Definition)


def read_workload_facts(client: ApiClient, kinds: tuple[WorkloadKind, ...]) -> WorkloadFacts:
    """Return those of the kinds that an API server serves, and the other ones with pod templates."""
    return WorkloadFacts(kinds, _read_served_kinds(client, kinds), _list_unread_kinds(client, kinds))


def _read_served_kinds(client: ApiClient, kinds: Iterable[WorkloadKind]) -> tuple[ServedKind, ...] | Unavailable:
    try:
        served = Discovery(client).read()
    except ApiError as error:
        return Unavailable(str(error))
    return tuple(_list_served(kinds, served))


def _list_served(kinds: Iterable[WorkloadKind], served: ServedResources) -> Iterator[ServedKind]:
    for kind in kinds:
        versions = tuple(version for group, version, plural in served if (group, plural) == (kind.group, kind.resource))
        if versions:
            yield ServedKind(kind, {version: served[kind.group, version, kind.resource] for version in versions})


def _list_unread_kinds(client: ApiClient, kinds: Iterable[WorkloadKind]) -> tuple[UnreadKind, ...] | Unavailable:
    read = {(kind.group, kind.kind) for kind in kinds}
    try:
        return tuple(
            unread
            for page in list_raw_pages(client, _DEFINITIONS, _PAGE_SIZE, None)
            for item in page
            if (unread := _find_unread(_DECODER.decode(item).spec, read)) is not None
        )
    except ApiError as error:
        return Unavailable(str(error))
    except (ValueError, RecursionError) as error:
        return Unavailable(f"a CustomResourceDefinition is not as an API server would have stored it: {error}")


def _find_unread(spec: _Spec, read: set[tuple[str, str]]) -> UnreadKind | None:
    if (spec.group, spec.names.kind) in read:
        return None
    for version in spec.versions:
        schema = msgspec.json.decode(version.schema.content) if version.served else None
        field = find_pod_template(schema) if isinstance(schema, dict) else ""
        if field:
            return UnreadKind(spec.group, spec.names.kind, field)
    return None


def find_pod_template(schema: Schema) -> str:
    """Return the path of the first pod template or pod spec in a schema; an empty string if it has none."""
    found = sorted(_list_templates(schema), key=lambda path: (path.count("."), path))
    return found[0] if found else ""


def _list_templates(schema: Schema) -> Iterator[str]:
    rest: list[tuple[str, Schema]] = [("", schema)]
    while rest:
        path, current = rest.pop()
        if _is_pod_spec(current) or (_is_open(current) and path.rpartition(".")[2].lower().endswith(_TEMPLATE)):
            yield path
            continue
        properties = current.get("properties")
        for name, child in (properties if isinstance(properties, dict) else {}).items():
            if isinstance(child, dict) and (path or name != _STATUS):
                rest.append((f"{path}.{name}" if path else name, child))
        for key, step in (("items", "[*]"), ("additionalProperties", ".*")):
            child = current.get(key)
            if isinstance(child, dict):
                rest.append((f"{path}{step}", child))


def _is_pod_spec(schema: Schema) -> bool:
    value: Any = schema
    for key in ("properties", "containers", "items", "properties", "image"):
        value = value.get(key) if isinstance(value, dict) else None
    return value is not None


def _is_open(schema: Schema) -> bool:
    return schema.get("x-kubernetes-preserve-unknown-fields") is True
