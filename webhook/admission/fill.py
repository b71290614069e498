"""Filling in: the JSON Patch that writes a missing limit, or a missing request, where a rule says `fill`.

RFC 6902 operations with RFC 6901 paths. Applying it twice changes nothing more, because what is there is never touched.
"""

import re
from collections.abc import Iterator

from webhook.admission.selection import RuleSelection
from webhook.admission.sites import ResourceField
from webhook.admission.verdict import PatchOperation
from webhook.objects.core import ResourceList

_INDEX_PATTERN = re.compile(r"\[(\d+)\]")


def create_fill_operations(
    resource_fields: list[ResourceField], stored_fields: list[ResourceField], selection: RuleSelection
) -> Iterator[PatchOperation]:
    """The operations for what is missing at these sites, sparing what stood just so `before` (the stored object)."""
    stored_pairs = {site.identity: site.requests_and_limits for site in stored_fields if site.requests_and_limits}
    for resource_field in resource_fields:
        if resource_field.requests_and_limits is None:
            continue
        old_requests, old_limits = stored_pairs.get(resource_field.identity) or ({}, {})
        requests, limits = resource_field.requests_and_limits
        yield from _create_copy_operations(
            resource_field, ("limits", limits), requests, (old_requests, old_limits), selection
        )
        yield from _create_copy_operations(
            resource_field, ("requests", requests), limits, (old_limits, old_requests), selection
        )


def _create_copy_operations(
    resource_field: ResourceField,
    destination: tuple[str, ResourceList],
    source: ResourceList,
    stored_lists: tuple[ResourceList, ResourceList],
    selection: RuleSelection,
) -> Iterator[PatchOperation]:
    field, present = destination
    old_source, old_present = stored_lists
    missing = {
        name: raw
        for name, raw in source.items()
        if name not in present
        and selection.get_checks(name).has_fill
        and not (name in old_source and bytes(old_source[name]) == bytes(raw) and name not in old_present)
    }
    if not missing:
        return
    pointer = _create_json_pointer(f"{resource_field.path}{field}")
    if not present:
        yield {"op": "add", "path": pointer, "value": missing}
        return
    for name, raw in missing.items():
        yield {"op": "add", "path": f"{pointer}/{_escape_json_pointer(name)}", "value": raw}


def _create_json_pointer(path: str) -> str:
    """A field path (`spec.containers[0].resources`) as a JSON pointer."""
    return "/" + _INDEX_PATTERN.sub(r"/\1", path).replace(".", "/")


def _escape_json_pointer(name: str) -> str:
    """A resource name as one step of a JSON pointer (RFC 6901, section 4)."""
    return name.replace("~", "~0").replace("/", "~1")
