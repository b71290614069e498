"""Filling in: the JSON Patch that writes a missing limit, or a missing request, where a rule says `fill`.

RFC 6902 operations with RFC 6901 paths. Applying it twice changes nothing more, because what is there is never touched.
"""

import re
from collections.abc import Iterator

from webhook.admission.selection import Selection
from webhook.admission.sites import Site
from webhook.admission.verdict import PatchOperation
from webhook.objects.core import ResourceList

_INDEX = re.compile(r"\[(\d+)\]")


def fill(places: list[Site], before: list[Site], selection: Selection) -> Iterator[PatchOperation]:
    """The operations for what is missing at these sites, sparing what stood just so `before` (the stored object)."""
    stored = {site.identity: site.pair for site in before if site.pair}
    for site in places:
        if site.pair is None:
            continue
        old_requests, old_limits = stored.get(site.identity) or ({}, {})
        requests, limits = site.pair
        yield from _copy(site, ("limits", limits), requests, (old_requests, old_limits), selection)
        yield from _copy(site, ("requests", requests), limits, (old_limits, old_requests), selection)


def _copy(
    site: Site,
    into: tuple[str, ResourceList],
    source: ResourceList,
    stored: tuple[ResourceList, ResourceList],
    selection: Selection,
) -> Iterator[PatchOperation]:
    field, present = into
    old_source, old_present = stored
    missing = {
        name: raw
        for name, raw in source.items()
        if name not in present
        and selection.plan(name).fill
        and not (name in old_source and bytes(old_source[name]) == bytes(raw) and name not in old_present)
    }
    if not missing:
        return
    pointer = _pointer(f"{site.path}{field}")
    if not present:
        yield {"op": "add", "path": pointer, "value": missing}
        return
    for name, raw in missing.items():
        yield {"op": "add", "path": f"{pointer}/{_escaped(name)}", "value": raw}


def _pointer(path: str) -> str:
    """A field path (`spec.containers[0].resources`) as a JSON pointer."""
    return "/" + _INDEX.sub(r"/\1", path).replace(".", "/")


def _escaped(name: str) -> str:
    """A resource name as one step of a JSON pointer (RFC 6901, section 4)."""
    return name.replace("~", "~0").replace("/", "~1")
