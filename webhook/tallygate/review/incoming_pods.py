"""Incoming pods: the pods that an admission request creates, as the scheduler reads them."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tallygate.admission.implied_requests import ImpliedRequests
from tallygate.admission.kinds import DecodedRequest, ReviewTarget
from tallygate.admission.pod_view import PodView, read_template
from tallygate.admission.request import AdmissionRequest
from tallygate.admission.resource_fields import list_resource_fields
from tallygate.errors import TallygateError
from tallygate.objects.core import Pod
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import SchedulingPod, SchedulingPodSpec
from tallygate.review.applied_workload import decode_workloads

_POD = msgspec.json.Decoder(SchedulingPod)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DAEMON_SET = "DaemonSet"
_NO_TEMPLATE = PodView("", Pod(), is_template=False)
_JSON_NULL = msgspec.Raw(b"null")
_JSON_EMPTY = (b"null", b"[]")
_MAX_BYTES = 128 * 1024  # of constraints on nodes and other pods; the thousand terms that are evaluated are shorter


class TooComplexError(TallygateError):
    """A pod has more constraints on nodes and other pods than the gate evaluates."""


class _ConstraintFields(msgspec.Struct, rename="camel"):
    """The constraints of a pod on nodes and other pods, undecoded."""

    affinity: msgspec.Raw = _JSON_NULL
    tolerations: msgspec.Raw = _JSON_NULL
    topology_spread_constraints: msgspec.Raw = _JSON_NULL
    node_selector: msgspec.Raw = _JSON_NULL


class _ConstrainedPod(msgspec.Struct):
    spec: _ConstraintFields | None = None


_CONSTRAINTS = msgspec.json.Decoder(_ConstrainedPod)


class IncomingPods(msgspec.Struct, frozen=True):
    """A pod at `view` in its object, and the number of its `copies`; None for one on every node.

    `noun` is the name of the copies in messages, empty for a single pod. If `is_deferred`, it is unknown whether the
    pods fit now: they replace pods that end, they have scheduling gates, their priority is unknown, or they come with
    claims. `unknown_class` is the name of their RuntimeClass if it is not known: it may have an overhead, a node
    selector and tolerations.
    """

    pod: SchedulingPod
    view: PodView
    copies: int | None = 1
    noun: str = ""
    is_deferred: bool = False
    unknown_class: str = ""

    def locate_resources(self) -> Mapping[str, str]:
        """Return the path of the first request for each resource."""
        view = msgspec.structs.replace(self.view, pod=self.pod)
        return dict(reversed(list(_list_paths(view))))


def find_incoming_pods(decoded_request: DecodedRequest) -> Sequence[IncomingPods]:
    """Return the pods of each template that a request creates; none if the scheduler does not place them.

    Return none also for pods that no API server could decode: it rejects them itself.

    Raises:
        ReviewError: if an object is not of the kind that it states.
        TooComplexError: if the constraints of a pod on nodes and other pods are too long.
    """
    request, pod_target = decoded_request.request, decoded_request.target
    if pod_target is None or request.subresource:
        return ()
    try:
        if (request.group, request.kind) == ("", "Pod"):
            is_new = request.old_object is None
            return tuple(_read_pod(request, decoded_request.implied)) if is_new else ()
        return tuple(_read_workload(request, pod_target, decoded_request.implied)) if pod_target.creates_pods else ()
    except msgspec.DecodeError:
        return ()


def _read_pod(request: AdmissionRequest, implied: ImpliedRequests) -> Iterator[IncomingPods]:
    pod = _decode_pod(_NO_TEMPLATE, request)
    spec = pod.spec or SchedulingPodSpec()
    if not spec.node_name:
        is_deferred = bool(spec.scheduling_gates) or _is_priority_unknown(spec)
        unknown_class = implied.defaults.find_unknown_class(pod)
        yield IncomingPods(pod, _NO_TEMPLATE, is_deferred=is_deferred, unknown_class=unknown_class)


def _read_workload(
    request: AdmissionRequest, pod_target: ReviewTarget, implied: ImpliedRequests
) -> Iterator[IncomingPods]:
    """Yield the pods of a new workload, the additional pods of a changed one, or one pod of a rollout."""
    workload, old_workload = decode_workloads(request, pod_target, implied=implied)
    old_counts = {pods.view.identity: pods.replicas.count for pods in (old_workload.pod_sets if old_workload else ())}
    for pods in workload.pod_sets if workload is not None else ():
        increase = pods.replicas.count - old_counts.get(pods.view.identity, 0)
        if old_workload is not None and not pods.is_rollout and increase <= 0:
            continue
        pod = implied.complete(_decode_pod(pods.view, request))
        spec = pod.spec or SchedulingPodSpec()
        noun = f"more {pods.replicas.noun}" if old_workload else pods.replicas.noun
        is_deferred = (
            pods.is_rollout
            or not increase
            or bool(spec.scheduling_gates)
            or _is_priority_unknown(spec)
            or _has_claim_templates(request)
        )
        copies = None if request.kind == _DAEMON_SET else max(increase, 1)
        yield IncomingPods(pod, pods.view, copies, noun, is_deferred, implied.defaults.find_unknown_class(pod))


def _decode_pod(view: PodView, request: AdmissionRequest) -> SchedulingPod:
    """Return the pod with all fields that decide where it can run; its namespace is that of the request.

    It has no UID: its claims are made from templates after it is stored.
    """
    content = read_template(view, request.object)
    if _is_too_complex(content):
        raise TooComplexError
    pod = _POD.decode(content)
    meta = msgspec.structs.replace(pod.metadata or ObjectMeta(), namespace=request.namespace, uid=None)
    return msgspec.structs.replace(pod, metadata=meta)


def _is_too_complex(content: msgspec.Raw) -> bool:
    """Return whether the constraints take longer to decode than the rest of a pod, by their number of bytes."""
    if len(bytes(content)) <= _MAX_BYTES:
        return False
    fields = _CONSTRAINTS.decode(content).spec or _ConstraintFields()
    contents = (fields.affinity, fields.tolerations, fields.topology_spread_constraints, fields.node_selector)
    return sum(len(bytes(part)) for part in contents) > _MAX_BYTES


def _has_claim_templates(request: AdmissionRequest) -> bool:
    """Return whether claims are created with the pods, as by a StatefulSet: the nodes of their volumes are unknown."""
    spec = _FIELDS.decode(request.object).get("spec")
    return spec is not None and bytes(_FIELDS.decode(spec).get("volumeClaimTemplates", _JSON_NULL)) not in _JSON_EMPTY


def _is_priority_unknown(spec: SchedulingPodSpec) -> bool:
    """Return whether the pod names a priority class, and admission has not resolved its priority yet."""
    return spec.priority is None and bool(spec.priority_class_name)


def _list_paths(view: PodView) -> Iterator[tuple[str, str]]:
    for resource_field in list_resource_fields(view.pod, view):
        for field_name, entries in resource_field.lists:
            for name in entries:
                yield name, f"{resource_field.path}{field_name}[{name}]"
