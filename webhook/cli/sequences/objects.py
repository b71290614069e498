"""The objects that steps send: written in short, whole, or in a file beside the sequence."""

import io
import json
from pathlib import Path
from typing import Any, Final

from webhook.cli.intake import take_in
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.to_json import to_json
from webhook.cli.sequences.model import Body
from webhook.cli.sequences.plain import mapping, plain
from webhook.errors import TallygateError
from webhook.policy.build import Fields
from webhook.policy.codes import MISSING_FIELD, UNKNOWN_FIELD, UNREADABLE, WRONG_TYPE
from webhook.policy.finding import LintFinding, Severity
from webhook.policy.model import SourceLocation

WORKLOADS: Final = {"deployment": ("apps/v1", "Deployment"), "statefulset": ("apps/v1", "StatefulSet")}
SHORT: Final = {"pod": ("v1", "Pod"), **WORKLOADS, "job": ("batch/v1", "Job")}
"""How an object is named in short: its API version and kind."""

_BOUNDS = Bounds(size=1 << 20, depth=40, documents=10, nodes=50_000, expanded=10_000)

_LONGEST_NUMBER: Final = 18
_IN_SHORT: Final = (
    "replicas",
    "resources",
    "requests",
    "limits",
    "labels",
    "priorityClass",
    "nodeSelector",
)


class ObjectError(TallygateError):
    """A step does not say which object it sends; the finding tells why."""

    def __init__(self, finding: LintFinding) -> None:
        self.finding = finding
        super().__init__(str(finding))


def written(fields: Fields, source: SourceLocation) -> Body:
    """The object of a step.

    Raises:
        ObjectError: it is said in no way or in several, or its file holds something else.
    """
    ways = [name for name in (*SHORT, "manifest", "file") if fields.get_node(name) is not None]
    if not ways:
        raise _error(source, f"which object? name one by {', '.join(SHORT)}, manifest or file", MISSING_FIELD)
    if len(ways) > 1:
        raise _error(source, f"{ways[0]} and {ways[1]} are two objects; write two steps", UNKNOWN_FIELD)
    (way,) = ways
    extra = [name for name in _IN_SHORT if fields.get_node(name) is not None]
    if way not in SHORT and extra:
        raise _error(
            source, f"{extra[0]} stands beside {way}, which says all of the object; write it there", UNKNOWN_FIELD
        )
    if way == "pod" and fields.get_node("replicas") is not None:
        raise _error(source, "replicas: a pod is one; name a deployment, statefulset or job instead", UNKNOWN_FIELD)
    if way == "manifest":
        return mapping(fields, "manifest")
    return _from_file(fields.get_text("file"), source) if way == "file" else _in_short(way, fields)


def amounts(fields: Fields) -> tuple[Body, Body]:
    """Requests and limits that are written: `resources` is both."""
    both = mapping(fields, "resources")
    return {**both, **mapping(fields, "requests")}, {**both, **mapping(fields, "limits")}


def _in_short(way: str, fields: Fields) -> Body:
    version, kind = SHORT[way]
    name = fields.get_text(way)
    labels, spec = mapping(fields, "labels"), _pod_spec(fields)
    head = {"apiVersion": version, "kind": kind}
    if kind == "Pod":
        return {**head, "metadata": {"name": name, "labels": labels}, "spec": spec}
    replicas = plain(fields.get_node("replicas"))
    template = {"metadata": {"labels": {**labels, "app": name}}, "spec": spec}
    counts = {} if replicas is None else {"parallelism" if kind == "Job" else "replicas": replicas}
    if kind == "Job":
        return {**head, "metadata": {"name": name}, "spec": {**counts, "template": template}}
    selector = {"matchLabels": {"app": name}}
    return {**head, "metadata": {"name": name}, "spec": {**counts, "selector": selector, "template": template}}


def _pod_spec(fields: Fields) -> Body:
    requests, limits = amounts(fields)
    resources = {name: each for name, each in (("requests", requests), ("limits", limits)) if each}
    spec: Body = {"containers": [{"name": "main", "resources": resources}]}
    if fields.get_text("priorityClass"):
        spec["priorityClassName"] = fields.get_text("priorityClass")
    if selector := mapping(fields, "nodeSelector"):
        spec["nodeSelector"] = selector
    return spec


def _from_file(path: str, source: SourceLocation) -> Body:
    whole = str(Path(source.file).parent / path)
    intake = take_in((whole,), io.BytesIO(), _BOUNDS, lambda names: names)
    for found in intake.findings:
        raise ObjectError(
            LintFinding(found.file, found.line, found.column, found.code, Severity.ERROR, found.message),
        )
    if len(intake.manifests) != 1:
        raise _error(source, f"{whole} holds {len(intake.manifests)} objects; a step sends one", UNREADABLE)
    (manifest,) = intake.manifests
    try:
        body: Any = json.loads(to_json(manifest.node, _BOUNDS.expanded), parse_float=str, parse_int=_whole)
    except Fault as fault:
        place = SourceLocation(whole, fault.place.line, fault.place.column)
        raise _error(place, fault.message, fault.code) from fault
    found_body: Body = {**body, "apiVersion": manifest.api_version, "kind": manifest.kind}
    metadata = found_body.get("metadata")
    if not isinstance(metadata, dict | None):
        place = SourceLocation(whole, manifest.node.place.line, manifest.node.place.column)
        raise _error(place, "metadata: must be a mapping", WRONG_TYPE)
    return found_body


def _whole(text: str) -> int | str:
    """A whole number; one that is longer than any that Kubernetes knows stays a text."""
    return int(text) if len(text) <= _LONGEST_NUMBER else text


def _error(source: SourceLocation, message: str, code: str) -> ObjectError:
    return ObjectError(LintFinding.create(source, code, Severity.ERROR, message))
