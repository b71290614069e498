"""Registration: the two webhook configurations by which an API server comes to ask the gate.

Made from the table of what is judged, so that what is sent and what is answered cannot part. As in
admissionregistration.k8s.io/v1 (k8s.io/api/admissionregistration/v1/types.go, v1.36).
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from webhook.admission.change import CREATE, UPDATE, Phase
from webhook.admission.workloads import SCALED, TARGETS

NAME = "tallygate"
"""What both configurations are called."""

NAMESPACE = "tallygate-system"
"""Where the gate runs when nobody says otherwise."""

ADMIT_PREFIX = "/v1/admit/"
"""In front of the phase in the path of a review; a secret segment may stand between."""

Kind = tuple[str, str]
"""Group and kind."""

_DOMAIN = "tallygate.dev"
_SECONDS = 5  # within the API server's 30, and long enough for a decision that waits for its turn
_CLUSTER_SCOPED = frozenset({("", "Node")})
_NAMESPACED = frozenset(TARGETS) - _CLUSTER_SCOPED

# Before it looks at any condition the API server makes plain maps of the whole object: a quarter of the work that the
# gate made it do for a pod that is created (docs/performance.md). So creates and updates are two webhooks, and in the
# validating phase no condition is looked at for creates. Nodes are created seldom and have one webhook.
#
# An update that leaves what is judged as it is gets no answer but yes (tests/admission/test_registration_spares.py),
# and most updates are such: heartbeats, finalizers, annotations of controllers.
_CHANGES_OBJECTS = (
    "object.?spec != oldObject.?spec"
    " || object.?template != oldObject.?template"  # of a PodTemplate, which has no spec
    " || object.metadata.?labels != oldObject.metadata.?labels"
)
_CHANGES_NODES = (  # `||` passes over what fails on CREATE, where there is no old object
    "request.operation != 'UPDATE'"
    " || object.?status.?capacity != oldObject.?status.?capacity"
    " || object.?status.?allocatable != oldObject.?status.?allocatable"
    " || object.metadata.?labels != oldObject.metadata.?labels"
)
_ASKS_FOR_MORE = "object.spec.?replicas.orValue(0) > oldObject.spec.?replicas.orValue(0)"
_CHANGES_LABELS = "object.metadata.?labels != oldObject.metadata.?labels"

# A pod to which the mutating phase would do nothing is asked about once, in the validating phase: nothing is missing
# that could be filled in, and nothing stands in it that the built-in validation between the two would refuse in words
# worse than ours. What is not plain is asked about; bounds keep hostile objects within what a condition may cost.
_NATIVE = "['cpu', 'memory', 'ephemeral-storage']"
_DOMAIN_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_EXTENDED = f"^{_DOMAIN_NAME}/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
_WHOLE = "^[0-9]{1,15}$"
_MODEST = "^([0-9]{1,12}|[0-9]{1,9}m|[0-9]{1,5}([kMG]|[KMG]i)|[0-9]{1,2}(T|Ti))$"  # never beyond 64 bits, even in sum
_MOST_CONTAINERS, _MOST_NAMES, _LONGEST_NAME = 20, 8, 200
_IS_PLAIN = (
    f"(name in {_NATIVE} && string(c.resources.requests[name]).matches('{_MODEST}'))"
    f" || (name.size() <= {_LONGEST_NAME} && name.matches('{_EXTENDED}') && !name.contains('kubernetes.io/')"
    f" && !name.startsWith('requests.') && string(c.resources.requests[name]).matches('{_WHOLE}'))"
)
_IS_COMPLETE = (
    f"{{list}}.size() <= {_MOST_CONTAINERS} && {{list}}.all(c, c.?resources.?requests == c.?resources.?limits"
    f" && c.?resources.?requests.orValue({{{{}}}}).size() <= {_MOST_NAMES}"
    f" && c.?resources.?requests.orValue({{{{}}}}).all(name, {_IS_PLAIN.replace('{', '{{').replace('}', '}}')}))"
)
_MAY_BE_MENDED = (
    "request.kind.kind != 'Pod'"
    " || has(object.spec.resources) || has(object.spec.overhead)"
    f" || !({_IS_COMPLETE.format(list='object.spec.containers')}"
    f" && {_IS_COMPLETE.format(list='object.spec.?initContainers.orValue([])')})"
)


@dataclass(frozen=True, slots=True)
class Service:
    """The gate behind a Service of its cluster; `port` is the Service's own."""

    namespace: str = NAMESPACE
    name: str = NAME
    port: int = 443


@dataclass(frozen=True, slots=True)
class Url:
    """The gate anywhere else: `base` is `https://HOST:PORT`, without a path."""

    base: str


Reached = Service | Url
"""How the API server reaches the gate."""


def registration(
    reached: Reached,
    *,
    ca_bundle: bytes | None = None,
    failure_policy: str = "Fail",
    own_namespace: str = NAMESPACE,
    token: str = "",
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The mutating and the validating configuration, as plain objects.

    `ca_bundle` is the PEM of the authorities to trust, `failure_policy` `Fail` or `Ignore` for everything but nodes,
    `own_namespace` where the gate runs, which it must not stand in the way of, and `token` the secret segment of its
    paths, where it has one.
    """
    spares = ("kube-system", own_namespace)
    of_creates = {Phase.MUTATING: _conditions("may-be-mended", _MAY_BE_MENDED), Phase.VALIDATING: {}}
    told = {
        f"namespaces.{Phase.VALIDATING}.{_DOMAIN}": _namespaces(),
        f"scales.{Phase.VALIDATING}.{_DOMAIN}": _scales(spares),
    }

    def webhooks(phase: Phase, more: Mapping[str, dict[str, Any]], **further: str) -> list[dict[str, Any]]:
        path = f"{ADMIT_PREFIX}{token}/{phase}" if token else f"{ADMIT_PREFIX}{phase}"
        parts = {
            f"{phase}.{_DOMAIN}": _creates(failure_policy, spares) | of_creates[phase],
            f"updates.{phase}.{_DOMAIN}": _updates(failure_policy, spares),
            f"nodes.{phase}.{_DOMAIN}": _nodes(),
            **more,
        }
        return [
            {"name": name, "clientConfig": _client(reached, path, ca_bundle)} | part | _always() | further
            for name, part in parts.items()
        ]

    return (
        _configuration("MutatingWebhookConfiguration", webhooks(Phase.MUTATING, {}, reinvocationPolicy="IfNeeded")),
        _configuration("ValidatingWebhookConfiguration", webhooks(Phase.VALIDATING, told)),
    )


def _configuration(kind: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "registration"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": NAME, "labels": labels},
        "webhooks": webhooks,
    }


def _client(reached: Reached, path: str, ca_bundle: bytes | None) -> dict[str, Any]:
    trust = {} if ca_bundle is None else {"caBundle": base64.b64encode(ca_bundle).decode("ascii")}
    if isinstance(reached, Url):
        return {"url": reached.base.rstrip("/") + path} | trust
    service = {"namespace": reached.namespace, "name": reached.name, "port": reached.port, "path": path}
    return {"service": service} | trust


def _creates(failure_policy: str, spared_namespaces: tuple[str, ...]) -> dict[str, Any]:
    return {
        "failurePolicy": failure_policy,
        "namespaceSelector": _all_but(spared_namespaces),
        "rules": _created(_NAMESPACED, "Namespaced"),
    }


def _updates(failure_policy: str, spared_namespaces: tuple[str, ...]) -> dict[str, Any]:
    return {
        "failurePolicy": failure_policy,
        "namespaceSelector": _all_but(spared_namespaces),
        **_conditions("changes-what-is-judged", _CHANGES_OBJECTS),
        "rules": _updated(_NAMESPACED, "Namespaced"),
    }


def _conditions(name: str, expression: str) -> dict[str, Any]:
    return {"matchConditions": [{"name": name, "expression": expression}]}


def _all_but(namespaces: tuple[str, ...]) -> dict[str, Any]:
    named = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}
    return {"matchExpressions": [named]}


def _nodes() -> dict[str, Any]:
    """Nodes are never kept out because the gate is away.

    Where all nodes of a cluster are replaced at once, the gate has no node to run on until one has registered.
    """
    return {
        "failurePolicy": "Ignore",
        **_conditions("changes-what-is-judged", _CHANGES_NODES),
        "rules": _created(_CLUSTER_SCOPED, "Cluster") + _updated(_CLUSTER_SCOPED, "Cluster"),
    }


def _namespaces() -> dict[str, Any]:
    """A namespace that comes under a cap by its labels is told of it, and never refused."""
    return {
        "failurePolicy": "Ignore",
        **_conditions("changes-labels", _CHANGES_LABELS),
        "rules": [_rule("", ["namespaces"], [UPDATE], "Cluster")],
    }


def _scales(spared_namespaces: tuple[str, ...]) -> dict[str, Any]:
    """A workload that is told to have more pods. Autoscalers do that all day: the gate must not be in their way."""
    scaled = groupby(sorted(SCALED), key=lambda resource: resource[0])
    return {
        "failurePolicy": "Ignore",
        "namespaceSelector": _all_but(spared_namespaces),
        **_conditions("asks-for-more", _ASKS_FOR_MORE),
        "rules": [
            _rule(group, [f"{plural}/scale" for _, plural in resources], [UPDATE], "Namespaced")
            for group, resources in scaled
        ],
    }


def _always() -> dict[str, Any]:
    return {
        "matchPolicy": "Equivalent",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": _SECONDS,
        "admissionReviewVersions": ["v1"],
    }


def _created(kinds: Iterable[Kind], scope: str) -> list[dict[str, Any]]:
    """One rule for each group; subresources are never created."""
    return [
        _rule(group, [TARGETS[key].plural for key in members], [CREATE], scope) for group, members in _by_group(kinds)
    ]


def _updated(kinds: Iterable[Kind], scope: str) -> list[dict[str, Any]]:
    """One rule for each group, its subresources with it."""
    return [
        _rule(group, [resource for key in members for resource in _with_parts(key)], [UPDATE], scope)
        for group, members in _by_group(kinds)
    ]


def _by_group(kinds: Iterable[Kind]) -> Iterator[tuple[str, Iterator[Kind]]]:
    return groupby(sorted(kinds), key=lambda kind: kind[0])


def _with_parts(kind: Kind) -> list[str]:
    target = TARGETS[kind]
    return [f"{target.plural}/{part}" if part else target.plural for part in sorted(target.subresources)]


def _rule(group: str, resources: list[str], operations: list[str], scope: str) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "resources": resources,
        "operations": operations,
        "scope": scope,
    }
