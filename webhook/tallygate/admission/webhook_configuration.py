"""The two webhook configurations that register the gate with an API server.

They are generated from the table of review targets, so that registration and evaluation always agree. Resources of
other projects are added if an API server serves them. The format is admissionregistration.k8s.io/v1
(k8s.io/api/admissionregistration/v1/types.go, v1.36).
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tallygate.accounting.gpu_annotations import CONTAINER_MEMORY_PREFIX, DEVICE_COUNT_ANNOTATION, GpuAnnotation
from tallygate.admission.kinds import BUILT_IN_TARGETS, SCALABLE_KINDS
from tallygate.admission.request import CREATE, UPDATE, Phase
from tallygate.admission.workload_resources import WORKLOAD_WEBHOOK, TopField, WorkloadResource
from tallygate.policy.limit_annotations import ANNOTATION_PREFIX

CONFIGURATION_NAME = "tallygate"
"""The name of both configurations."""

DEFAULT_NAMESPACE = "tallygate-system"
"""The default namespace of the gate."""

ADMIT_PATH_PREFIX = "/v1/admit/"
"""The prefix of the URL path of a review; a secret segment may follow, then the phase."""

GroupKind = tuple[str, str]
"""Group and kind."""

_DOMAIN = "tallygate.dev"

LIMITS_WEBHOOK = f"limits.{Phase.VALIDATING}.{_DOMAIN}"
"""The name of the webhook of annotations that set limits."""

_TIMEOUT_SECONDS = 5  # within the API server's 30, and long enough for a decision that waits in the queue
_CLUSTER_SCOPED = frozenset({("", "Node")})
_NAMESPACED = frozenset(BUILT_IN_TARGETS) - _CLUSTER_SCOPED
_CLAIMS = frozenset(
    key for key in BUILT_IN_TARGETS if key[0] == "resource.k8s.io"
)  # no rule fills in anything of a claim
_NAMESPACED_BY_PHASE = {Phase.MUTATING: _NAMESPACED - _CLAIMS, Phase.VALIDATING: _NAMESPACED}

# The API server converts the whole object to plain maps before it evaluates a condition: a quarter of the work that
# the gate caused there for the creation of a pod (docs/design/performance.md). So creates and updates have two
# webhooks, and the validating phase has no condition for creates. Nodes are created rarely and have one webhook.
#
# The gate always allows an update that leaves the evaluated fields unchanged
# (tests/admission/test_match_conditions.py). Most updates do: heartbeats, finalizers, annotations of controllers.
_GPU_ANNOTATIONS = [*map(str, GpuAnnotation), DEVICE_COUNT_ANNOTATION]
_IS_OTHER_GPU_ANNOTATION = (
    f"(key in {_GPU_ANNOTATIONS} || key.startsWith('{CONTAINER_MEMORY_PREFIX}'))"
    " && object.metadata.?annotations[?key] != oldObject.metadata.?annotations[?key]"
)
_OBJECT_CHANGES = (
    "object.?spec != oldObject.?spec"
    " || object.?template != oldObject.?template"  # of a PodTemplate, which has no spec
    " || object.metadata.?labels != oldObject.metadata.?labels"
)
_COUNTED_ANNOTATION_CHANGES = (
    f" || object.metadata.?annotations.orValue({{}}).exists(key, {_IS_OTHER_GPU_ANNOTATION})"
    f" || oldObject.metadata.?annotations.orValue({{}}).exists(key, {_IS_OTHER_GPU_ANNOTATION})"
)
_ALLOCATION_CHANGES = " || object.?status.?allocation != oldObject.?status.?allocation"  # of a claim
_NODE_CHANGES = (  # `||` ignores the error on CREATE, where the old object is missing
    "request.operation != 'UPDATE'"
    " || object.?status.?capacity != oldObject.?status.?capacity"
    " || object.?status.?allocatable != oldObject.?status.?allocatable"
    " || object.metadata.?labels != oldObject.metadata.?labels"
)
_REPLICAS_INCREASE = "object.spec.?replicas.orValue(0) > oldObject.spec.?replicas.orValue(0)"
_SELECTIONS = {"spec": ".?spec", "metadata": ".metadata"}
_LABELS_CHANGE = "object.metadata.?labels != oldObject.metadata.?labels"
_SETS_LIMIT = f"key.startsWith('{ANNOTATION_PREFIX}')"
_IS_OTHER_LIMIT = f"{_SETS_LIMIT} && object.metadata.?annotations[?key] != oldObject.metadata.?annotations[?key]"
_LIMITS_CHANGE = (
    f"request.operation != 'UPDATE' ? object.metadata.?annotations.orValue({{}}).exists(key, {_SETS_LIMIT}) : ("
    f"object.metadata.?annotations.orValue({{}}).exists(key, {_IS_OTHER_LIMIT})"
    f" || oldObject.metadata.?annotations.orValue({{}}).exists(key, {_IS_OTHER_LIMIT}))"
)
_NAMESPACE_CHANGES = f"{_LABELS_CHANGE} && !({_LIMITS_CHANGE})"  # each write has one review

# The API server skips the mutating phase for a pod without missing entries and without entries that the built-in
# validation between the phases would reject with a worse message; the validating phase sees every pod. Where a policy
# implies requests, nearly every new pod lacks one, so that the condition would only cost time. A pod outside
# these simple forms goes to both phases. The bounds keep hostile objects within the cost limit of a condition.
_NATIVE_RESOURCES = "['cpu', 'memory', 'ephemeral-storage']"
_DOMAIN_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_EXTENDED_NAME = f"^{_DOMAIN_NAME}/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
_WHOLE_QUANTITY = "^[0-9]{1,15}$"
_SMALL_QUANTITY = (
    "^([0-9]{1,12}|[0-9]{1,9}m|[0-9]{1,5}([kMG]|[KMG]i)|[0-9]{1,2}(T|Ti))$"  # never beyond 64 bits, even in sum
)
_MAX_CONTAINERS, _MAX_NAMES, _MAX_NAME_LENGTH = 20, 8, 200
_IS_SIMPLE_ENTRY = (
    f"(name in {_NATIVE_RESOURCES} && string(c.resources.requests[name]).matches('{_SMALL_QUANTITY}'))"
    f" || (name.size() <= {_MAX_NAME_LENGTH} && name.matches('{_EXTENDED_NAME}') && !name.contains('kubernetes.io/')"
    f" && !name.startsWith('requests.') && string(c.resources.requests[name]).matches('{_WHOLE_QUANTITY}'))"
)
_IS_COMPLETE = (
    f"{{list}}.size() <= {_MAX_CONTAINERS} && {{list}}.all(c, c.?resources.?requests == c.?resources.?limits"
    f" && c.?resources.?requests.orValue({{{{}}}}).size() <= {_MAX_NAMES}"
    f" && c.?resources.?requests.orValue({{{{}}}}).all(name, {_IS_SIMPLE_ENTRY.replace('{', '{{').replace('}', '}}')}))"
)
_MAY_BE_MUTATED = (
    "request.kind.kind != 'Pod'"
    " || has(object.spec.resources) || has(object.spec.overhead)"
    f" || !({_IS_COMPLETE.format(list='object.spec.containers')}"
    f" && {_IS_COMPLETE.format(list='object.spec.?initContainers.orValue([])')})"
)


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """The address of the gate behind a Service of its cluster; `port` is the Service's own."""

    namespace: str = DEFAULT_NAMESPACE
    name: str = CONFIGURATION_NAME
    port: int = 443


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """The address of the gate anywhere else: `base` is `https://HOST:PORT`, without a path."""

    base: str


WebhookTarget = ServiceTarget | UrlTarget
"""The address at which the API server reaches the gate."""


def create_webhook_configurations(  # noqa: PLR0913  # each is a choice
    target: WebhookTarget,
    *,
    ca_bundle: bytes | None = None,
    failure_policy: str = "Fail",
    own_namespace: str = DEFAULT_NAMESPACE,
    exempt_namespaces: Iterable[str] = (),
    token: str = "",
    workload_resources: Sequence[WorkloadResource] = (),
    implies_requests: bool = False,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the mutating and the validating configuration, as plain objects.

    `ca_bundle` is the PEM of the trusted CAs, `failure_policy` `Fail` or `Ignore` for pods and workloads,
    `own_namespace` the namespace of the gate, which its webhooks must not block, as little as `exempt_namespaces`, and
    `token` the secret segment of its paths, or empty. `workload_resources` are those of other projects. If a policy
    `implies_requests`, the mutating phase has to see each new pod.
    """
    excluded = tuple(dict.fromkeys(("kube-system", own_namespace, *exempt_namespaces)))
    create_conditions = {
        Phase.MUTATING: {} if implies_requests else _create_match_conditions("may-be-mended", _MAY_BE_MUTATED),
        Phase.VALIDATING: {},
    }
    validating_only = _create_validating_only_webhooks(excluded, workload_resources)

    def webhooks(
        phase: Phase, extra_webhooks: Mapping[str, dict[str, Any]], **extra_fields: str
    ) -> list[dict[str, Any]]:
        path = f"{ADMIT_PATH_PREFIX}{token}/{phase}" if token else f"{ADMIT_PATH_PREFIX}{phase}"
        fields_by_name = {
            f"{phase}.{_DOMAIN}": _create_creation_webhook(phase, failure_policy, excluded) | create_conditions[phase],
            f"updates.{phase}.{_DOMAIN}": _create_update_webhook(phase, failure_policy, excluded),
            f"nodes.{phase}.{_DOMAIN}": _create_node_webhook(),
            **extra_webhooks,
            **(
                {
                    get_workload_webhook_name(phase): _create_workload_webhook(
                        failure_policy, excluded, workload_resources
                    )
                }
                if workload_resources
                else {}
            ),
        }
        return [
            {"name": name, "clientConfig": _create_client_config(target, path, ca_bundle)}
            | webhook_fields
            | _create_common_fields()
            | extra_fields
            for name, webhook_fields in fields_by_name.items()
        ]

    return (
        _create_configuration(
            "MutatingWebhookConfiguration", webhooks(Phase.MUTATING, {}, reinvocationPolicy="IfNeeded")
        ),
        _create_configuration("ValidatingWebhookConfiguration", webhooks(Phase.VALIDATING, validating_only)),
    )


def _create_validating_only_webhooks(
    excluded: tuple[str, ...], workload_resources: Sequence[WorkloadResource]
) -> dict[str, dict[str, Any]]:
    return {
        f"namespaces.{Phase.VALIDATING}.{_DOMAIN}": _create_namespace_webhook(),
        LIMITS_WEBHOOK: _create_limits_webhook(),
        f"scales.{Phase.VALIDATING}.{_DOMAIN}": _create_scale_webhook(excluded, workload_resources),
    }


def get_workload_webhook_name(phase: Phase) -> str:
    """Return the name of the webhook for resources of other projects."""
    return f"{WORKLOAD_WEBHOOK}.{phase}.{_DOMAIN}"


def _create_configuration(kind: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": CONFIGURATION_NAME, "app.kubernetes.io/component": "registration"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": CONFIGURATION_NAME, "labels": labels},
        "webhooks": webhooks,
    }


def _create_client_config(target: WebhookTarget, path: str, ca_bundle: bytes | None) -> dict[str, Any]:
    ca_fields = {} if ca_bundle is None else {"caBundle": base64.b64encode(ca_bundle).decode("ascii")}
    if isinstance(target, UrlTarget):
        return {"url": target.base.rstrip("/") + path} | ca_fields
    service = {"namespace": target.namespace, "name": target.name, "port": target.port, "path": path}
    return {"service": service} | ca_fields


def _create_creation_webhook(phase: Phase, failure_policy: str, excluded: tuple[str, ...]) -> dict[str, Any]:
    return {
        "failurePolicy": failure_policy,
        "namespaceSelector": _exclude_namespaces(excluded),
        "rules": _list_creation_rules(_NAMESPACED_BY_PHASE[phase], "Namespaced"),
    }


def _create_update_webhook(phase: Phase, failure_policy: str, excluded: tuple[str, ...]) -> dict[str, Any]:
    extra_condition = _ALLOCATION_CHANGES + _COUNTED_ANNOTATION_CHANGES if phase is Phase.VALIDATING else ""
    return {
        "failurePolicy": failure_policy,
        "namespaceSelector": _exclude_namespaces(excluded),
        **_create_match_conditions("changes-what-is-judged", _OBJECT_CHANGES + extra_condition),
        "rules": _list_update_rules(_NAMESPACED_BY_PHASE[phase], "Namespaced"),
    }


def _create_match_conditions(name: str, expression: str) -> dict[str, Any]:
    return {"matchConditions": [{"name": name, "expression": expression}]}


def _exclude_namespaces(namespaces: tuple[str, ...]) -> dict[str, Any]:
    requirement = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}
    return {"matchExpressions": [requirement]}


def _create_node_webhook() -> dict[str, Any]:
    """Return the webhook of nodes; its failure policy accepts nodes while the gate is unavailable.

    If all nodes of a cluster are replaced at once, the gate has no node to run on until one has registered.
    """
    return {
        "failurePolicy": "Ignore",
        **_create_match_conditions("changes-what-is-judged", _NODE_CHANGES),
        "rules": _list_creation_rules(_CLUSTER_SCOPED, "Cluster") + _list_update_rules(_CLUSTER_SCOPED, "Cluster"),
    }


def _create_namespace_webhook() -> dict[str, Any]:
    """Return the webhook of namespaces whose labels change: it warns of a cap that the new labels select."""
    return {
        "failurePolicy": "Ignore",
        **_create_match_conditions("changes-labels", _NAMESPACE_CHANGES),
        "rules": [_create_namespace_update_rule()],
    }


def _create_namespace_update_rule() -> dict[str, Any]:
    return _create_rule("", ["namespaces", "namespaces/finalize", "namespaces/status"], [UPDATE], "Cluster")


def _create_limits_webhook() -> dict[str, Any]:
    """Return the webhook of annotations that set limits, which denies one by a user that the cap does not name.

    It fails closed whatever the failure policy of the others is: nothing that a cluster needs to start or to recover
    changes such an annotation, and a raise that no gate admitted would stay after the outage. It excludes no namespace,
    since one that is excluded today may be a member of a cap later.
    """
    return {
        "failurePolicy": "Fail",
        **_create_match_conditions("changes-limits", _LIMITS_CHANGE),
        "rules": [_create_rule("", ["namespaces"], [CREATE], "Cluster"), _create_namespace_update_rule()],
    }


def _create_scale_webhook(excluded: tuple[str, ...], resources: Sequence[WorkloadResource]) -> dict[str, Any]:
    """Return the webhook of scale requests that add pods.

    Autoscalers send them all day, so the failure policy accepts them while the gate is unavailable.
    """
    built_in = sorted(
        (group, plural) for (group, plural), kind in SCALABLE_KINDS.items() if (group, kind) in _NAMESPACED
    )
    return {
        "failurePolicy": "Ignore",
        "namespaceSelector": _exclude_namespaces(excluded),
        **_create_match_conditions("asks-for-more", _REPLICAS_INCREASE),
        "rules": [
            *(
                _create_rule(group, [f"{plural}/scale" for _, plural in members], [UPDATE], "Namespaced")
                for group, members in groupby(built_in, key=lambda resource: resource[0])
            ),
            *(
                _create_rule(resource.group, [f"{resource.plural}/scale"], [UPDATE], "Namespaced", resource.version)
                for resource in resources
                if (resource.group, resource.plural) in SCALABLE_KINDS
            ),
        ],
    }


def _create_workload_webhook(
    failure_policy: str, excluded: tuple[str, ...], resources: Sequence[WorkloadResource]
) -> dict[str, Any]:
    """Return the webhook of resources of other projects, which are created rarely and have one webhook.

    Their controllers update them often, and some of these resources have no subresource for the status.
    """
    selections = dict.fromkeys(_format_selection(field) for resource in resources for field in resource.fields)
    changes = "".join(f" || object{selection} != oldObject{selection}" for selection in selections)
    return {
        "failurePolicy": failure_policy,
        "namespaceSelector": _exclude_namespaces(excluded),
        **_create_match_conditions(
            "changes-what-is-judged", f"request.operation != 'UPDATE'{changes} || {_LABELS_CHANGE}"
        ),
        "rules": _list_workload_rules(resources),
    }


def _format_selection(field: TopField) -> str:
    """Return the selection of a field in CEL, by its index: its name may have a dash, or be a word of CEL."""
    return "".join(_SELECTIONS.get(step) or f"[?{json.dumps(step, ensure_ascii=False)}]" for step in field)


def _list_workload_rules(resources: Sequence[WorkloadResource]) -> list[dict[str, Any]]:
    """Return one rule for the resources of one group, version and scope."""
    groups = groupby(sorted(resources), key=lambda each: (each.group, each.version, each.is_namespaced))
    return [
        _create_rule(
            group,
            [member.plural for member in members],
            [CREATE, UPDATE],
            "Namespaced" if is_namespaced else "Cluster",
            version,
        )
        for (group, version, is_namespaced), members in groups
    ]


def _create_common_fields() -> dict[str, Any]:
    return {
        "matchPolicy": "Equivalent",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }


def _list_creation_rules(kinds: Iterable[GroupKind], scope: str) -> list[dict[str, Any]]:
    """Return one rule per group, without subresources, because they are never created."""
    return [
        _create_rule(group, [BUILT_IN_TARGETS[key].plural for key in members], [CREATE], scope)
        for group, members in _group_by_api_group(kinds)
    ]


def _list_update_rules(kinds: Iterable[GroupKind], scope: str) -> list[dict[str, Any]]:
    """Return one rule per group, with its subresources."""
    return [
        _create_rule(group, [resource for key in members for resource in _list_resources(key)], [UPDATE], scope)
        for group, members in _group_by_api_group(kinds)
    ]


def _group_by_api_group(kinds: Iterable[GroupKind]) -> Iterator[tuple[str, Iterator[GroupKind]]]:
    return groupby(sorted(kinds), key=lambda kind: kind[0])


def _list_resources(kind: GroupKind) -> list[str]:
    target = BUILT_IN_TARGETS[kind]
    return [
        f"{target.plural}/{subresource}" if subresource else target.plural
        for subresource in sorted(target.subresources)
    ]


def _create_rule(
    group: str, resources: list[str], operations: list[str], scope: str, version: str = "v1"
) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": resources,
        "operations": operations,
        "scope": scope,
    }
