"""The resources of other projects that the gate registers for: those of the known kinds that an API server serves.

An API server sends a request in any version of a resource to a webhook that is registered for one of them, converted
to this one (`matchPolicy: Equivalent`). So each kind is registered in one version: the newest one that is both served
and read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.policy.workload_kinds import FieldPath, PathStep, Wildcard, WorkloadKind

GroupVersionResource = tuple[str, str, str]
"""API group, version and plural of a resource."""

ServedResources = Mapping[GroupVersionResource, bool]
"""Resources that an API server serves, and whether their objects are in namespaces."""

WORKLOAD_WEBHOOK = "workloads"
"""The first part of the names of the webhooks that are called for these resources."""

TopField = tuple[str, ...]
"""A field at the top of an object, or below its metadata, which controllers change all the time."""

_SPEC: TopField = ("spec",)


class WorkloadResource(NamedTuple):
    """A resource in one version; `fields` are those at the top of its objects that decide on their pods."""

    group: str
    version: str
    plural: str
    is_namespaced: bool
    fields: tuple[TopField, ...] = (_SPEC,)

    def __str__(self) -> str:
        """Return the name by which kubectl finds the resource in this version."""
        return f"{self.plural}.{self.version}.{self.group}"


def select_resources(kinds: Iterable[WorkloadKind], served: ServedResources) -> tuple[WorkloadResource, ...]:
    """Return the served resources of kinds, sorted; of two kinds with one resource the last one counts."""
    found = (resource for kind in kinds if (resource := find_resource(kind, served)) is not None)
    return tuple(sorted({(kind.group, kind.plural): kind for kind in found}.values()))


def find_resource(kind: WorkloadKind, served: ServedResources) -> WorkloadResource | None:
    """Return the resource of a kind in its newest version that is served and read; None if no such version is."""
    for version in kind.versions:
        is_namespaced = served.get((kind.group, version, kind.resource))
        if is_namespaced is not None:
            return WorkloadResource(kind.group, version, kind.resource, is_namespaced, _list_fields(kind))
    return None


def _list_fields(kind: WorkloadKind) -> tuple[TopField, ...]:
    return tuple(sorted({_SPEC, *(_get_top(path.steps) for path in _list_paths(kind))}))


def _get_top(steps: Sequence[PathStep]) -> TopField:
    is_of_metadata = steps[0] == "metadata" and len(steps) > 1 and not isinstance(steps[1], Wildcard)
    return tuple(str(step) for step in steps[: 2 if is_of_metadata else 1])


def _list_paths(kind: WorkloadKind) -> Iterator[FieldPath]:
    yield from kind.suspended
    for pod_set in kind.pod_sets:
        yield from pod_set.templates
        yield from pod_set.suspended
        for factor in (*pod_set.counts, *pod_set.most):
            for field in factor:
                yield from (field.path, *field.floors)
        yield from filter(None, (pod_set.autoscaled, pod_set.rollout, pod_set.declared))


def read_registered(configuration: WebhookConfiguration) -> ServedResources:
    """Return the resources of other projects for which a stored webhook configuration is registered."""
    return {
        (group, version, plural): rule.scope != "Cluster"
        for webhook in configuration.webhooks
        if webhook.name.startswith(f"{WORKLOAD_WEBHOOK}.")
        for rule in webhook.rules
        for group in rule.api_groups
        for version in rule.api_versions
        for plural in rule.resources
    }
