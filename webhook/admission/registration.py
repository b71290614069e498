"""Registration: the two webhook configurations by which an API server comes to ask the gate.

Made from the table of what is judged, so that what is sent and what is answered cannot part. As in
admissionregistration.k8s.io/v1 (k8s.io/api/admissionregistration/v1/types.go, v1.36).
"""

import base64
from collections.abc import Iterable, Mapping
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

_DOMAIN = "tallygate.dev"
_SECONDS = 5  # within the API server's 30, and long enough for a decision that waits for its turn
_CLUSTER_SCOPED = frozenset({("", "Node")})

# An update that leaves what is judged as it is gets no answer but yes (tests/admission/test_registration_spares.py),
# and most updates are such: heartbeats, finalizers, annotations of controllers. `||` passes over what fails on CREATE,
# where there is no old object.
_CHANGES_OBJECTS = (
    "request.operation != 'UPDATE'"
    " || object.?spec != oldObject.?spec"
    " || object.?template != oldObject.?template"  # of a PodTemplate, which has no spec
    " || object.metadata.?labels != oldObject.metadata.?labels"
)
_CHANGES_NODES = (
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
    "request.operation != 'CREATE' || request.kind.kind != 'Pod'"
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
    spared = {"name": "may-be-mended", "expression": _MAY_BE_MENDED}
    spares = ("kube-system", own_namespace)
    told = {
        f"namespaces.{Phase.VALIDATING}.{_DOMAIN}": _namespaces(),
        f"scales.{Phase.VALIDATING}.{_DOMAIN}": _scales(spares),
    }

    def webhooks(phase: Phase, more: Mapping[str, dict[str, Any]], **further: str) -> list[dict[str, Any]]:
        path = f"{ADMIT_PREFIX}{token}/{phase}" if token else f"{ADMIT_PREFIX}{phase}"
        parts = {
            f"{phase}.{_DOMAIN}": _objects(failure_policy, spares, [spared] if phase is Phase.MUTATING else []),
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


def _objects(
    failure_policy: str, spared_namespaces: tuple[str, ...], conditions: list[dict[str, str]]
) -> dict[str, Any]:
    return {
        "failurePolicy": failure_policy,
        "namespaceSelector": _all_but(spared_namespaces),
        "matchConditions": [{"name": "changes-what-is-judged", "expression": _CHANGES_OBJECTS}, *conditions],
        "rules": _rules((key for key in TARGETS if key not in _CLUSTER_SCOPED), "Namespaced"),
    }


def _all_but(namespaces: tuple[str, ...]) -> dict[str, Any]:
    named = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}
    return {"matchExpressions": [named]}


def _nodes() -> dict[str, Any]:
    """Nodes are never kept out because the gate is away.

    Where all nodes of a cluster are replaced at once, the gate has no node to run on until one has registered.
    """
    return {
        "failurePolicy": "Ignore",
        "matchConditions": [{"name": "changes-what-is-judged", "expression": _CHANGES_NODES}],
        "rules": _rules(_CLUSTER_SCOPED, "Cluster"),
    }


def _namespaces() -> dict[str, Any]:
    """A namespace that comes under a cap by its labels is told of it, and never refused."""
    return {
        "failurePolicy": "Ignore",
        "matchConditions": [{"name": "changes-labels", "expression": _CHANGES_LABELS}],
        "rules": [_rule("", ["namespaces"], [UPDATE], "Cluster")],
    }


def _scales(spared_namespaces: tuple[str, ...]) -> dict[str, Any]:
    """A workload that is told to have more pods. Autoscalers do that all day: the gate must not be in their way."""
    scaled = groupby(sorted(SCALED), key=lambda resource: resource[0])
    return {
        "failurePolicy": "Ignore",
        "namespaceSelector": _all_but(spared_namespaces),
        "matchConditions": [{"name": "asks-for-more", "expression": _ASKS_FOR_MORE}],
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


def _rules(kinds: Iterable[tuple[str, str]], scope: str) -> list[dict[str, Any]]:
    """One rule for each group's objects, and one for their subresources, which are never created."""
    rules: list[dict[str, Any]] = []
    for group, members in groupby(sorted(kinds), key=lambda kind: kind[0]):
        targets = [TARGETS[key] for key in members]
        whole = [each.plural for each in targets]
        parts = [f"{each.plural}/{part}" for each in targets for part in sorted(each.subresources) if part]
        rules.append(_rule(group, whole, [CREATE, UPDATE], scope))
        if parts:
            rules.append(_rule(group, parts, [UPDATE], scope))
    return rules


def _rule(group: str, resources: list[str], operations: list[str], scope: str) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "resources": resources,
        "operations": operations,
        "scope": scope,
    }
