"""Pods, digested into the few fields that anybody needs of a hundred thousand of them.

What decides what a pod costs, and which caps count it, is its *shape*: the same for all pods of a Deployment, and so
kept once, as canonical bytes. What is each pod's own stands beside it in a row.
"""

from sys import intern

import msgspec

from webhook.accounting.charge import has_ended
from webhook.objects.core import Container, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus
from webhook.objects.meta import ObjectMeta, OwnerReference
from webhook.state.watch.shapes import Shape, Shapes
from webhook.state.watch.wire import Reading, revision_of

_RESIZE = "PodResizePending"
_ENCODER = msgspec.json.Encoder(order="deterministic")


class PodRow(msgspec.Struct, frozen=True, gc=False):
    """One pod: `shape` is what it has in common with others, `is_terminating` whether it is being deleted.

    A pod that `has_ended` costs nothing; one that is terminating still does.
    """

    uid: str
    namespace: str
    name: str
    node: str
    revision: int
    has_ended: bool
    is_terminating: bool
    shape: Shape


def reading(shapes: Shapes) -> Reading[Pod, PodRow]:
    """How pods are read: equal shapes become one already there, so that a long list does not hold them many times."""
    return Reading("pods", "/api/v1/pods", Pod, lambda pod: digest(pod, shapes))


def digest(pod: Pod, shapes: Shapes) -> PodRow:
    """The row of a stored pod.

    Raises:
        ValueError: it lacks what every stored pod has.
    """
    meta, spec = pod.metadata, pod.spec or PodSpec()
    if meta is None or not meta.uid or not meta.namespace or not meta.name:
        raise ValueError("a pod without uid, namespace or name")
    return PodRow(
        meta.uid,
        intern(meta.namespace),
        meta.name,
        intern(spec.node_name or ""),
        revision_of(meta.resource_version or ""),
        has_ended(pod),
        meta.deletion_timestamp is not None,
        shapes.of(_ENCODER.encode(_shape(meta, spec, pod.status))),
    )


def _shape(meta: ObjectMeta, spec: PodSpec, status: PodStatus | None) -> Pod:
    owners = _controller(meta)
    return Pod(
        metadata=ObjectMeta(labels=meta.labels, owner_references=owners) if meta.labels or owners else None,
        spec=PodSpec(
            containers=spec.containers,
            init_containers=spec.init_containers,
            overhead=spec.overhead,
            resources=spec.resources,
            resource_claims=spec.resource_claims,
            priority_class_name=spec.priority_class_name,
            node_selector=spec.node_selector,
        ),
        status=_status(status) if status is not None else None,
    )


def _controller(meta: ObjectMeta) -> list[OwnerReference] | None:
    """Whose pod it is: what pods of one shape have in common anyway, since controllers label theirs."""
    return [owner for owner in meta.owner_references or () if owner.controller] or None


def _status(status: PodStatus) -> PodStatus | None:
    """What a resize changes; nothing while none has happened and nothing was granted."""
    conditions = [each for each in status.conditions or () if each.type == _RESIZE]
    containers, init = _granted(status.container_statuses), _granted(status.init_container_statuses)
    if not (conditions or containers or init or status.resources or status.allocated_resources):
        return None
    return PodStatus(
        conditions=[PodCondition(each.type, each.status, each.reason) for each in conditions] or None,
        container_statuses=containers,
        init_container_statuses=init,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
    )


def _granted(statuses: list[ContainerStatus] | None) -> list[ContainerStatus] | None:
    """Those that say what a container has. The kubelet orders them as it likes, so they are put in order."""
    saying = [each for each in statuses or () if each.resources is not None or each.allocated_resources]
    if len(saying) > 1:
        saying.sort(key=_name)
    return saying or None


def _name(named: Container | ContainerStatus) -> str:
    return named.name or ""
