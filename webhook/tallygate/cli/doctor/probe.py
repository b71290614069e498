"""Requests of `doctor` that test the gate: access reviews, dry runs, and probes of the replicas.

Permissions: authorization.k8s.io/v1 with a SubjectAccessReview for another user and a SelfSubjectAccessReview for the
caller. Only the API server knows every authorizer.

Dry runs: pods that the API server neither stores nor charges.

Replicas: health and metrics, through the API server's proxy or by the URL of a monitor port.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from tallygate.accounting.names import OPAQUE_PREFIX
from tallygate.admission.webhook_configuration import is_for_labels
from tallygate.cli.doctor import facts
from tallygate.cli.doctor.api_types import GatePod, LabelledNamespace
from tallygate.cli.doctor.doctor_client import ApiResponse, DoctorClient
from tallygate.cli.doctor.permissions import Permission
from tallygate.cli.doctor.webhook_match import CREATE_POD, is_called_for, is_namespace_selected
from tallygate.cli.progress import track
from tallygate.kube.client import ClientConfig, ResponseLimits
from tallygate.objects.admission_registration import WebhookConfiguration

_AUTHORIZATION_API = "/apis/authorization.k8s.io/v1"
_CREATED = 201
_FORBIDDEN = 403
DENIED_POD, ALLOWED_POD = "tallygate-doctor-rejected", "tallygate-doctor-accepted"
_FRACTIONAL_AMOUNTS = {f"{OPAQUE_PREFIX}probes": "1500m"}
_SMALL_AMOUNTS = {"cpu": "1m", "memory": "1Mi"}
_DRY_RUN_PODS: tuple[tuple[str, dict[str, Any]], ...] = (
    (DENIED_POD, {"requests": _FRACTIONAL_AMOUNTS, "limits": _FRACTIONAL_AMOUNTS}),
    (ALLOWED_POD, {"requests": _SMALL_AMOUNTS}),
)
_MONITOR_PORT, MONITOR_PORT_NAME = 9090, "monitor"
_NOT_READY = 503
_MAX_MESSAGE_CHARACTERS = 200
_Send = Callable[[str], ApiResponse | facts.Unavailable]


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class _ReviewUser(msgspec.Struct, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()


class _SelfSubjectStatus(msgspec.Struct, rename="camel", frozen=True):
    user_info: _ReviewUser = _ReviewUser()


class _SelfSubjectReview(msgspec.Struct, frozen=True):
    status: _SelfSubjectStatus = _SelfSubjectStatus()


def review_permissions(
    api: DoctorClient, namespace: str, account: str, permissions: Iterable[Permission]
) -> tuple[facts.PermissionResult, ...] | facts.Unavailable:
    """Return each permission with the API server's decision for the ServiceAccount."""
    user = f"system:serviceaccount:{namespace}:{account}"
    is_self = _get_own_username(api) == user
    results = []
    for permission in permissions:
        allowed = _review_permission(api, namespace, permission, None if is_self else user)
        if isinstance(allowed, facts.Unavailable):
            return allowed
        results.append(facts.PermissionResult(permission, allowed))
    return tuple(results)


def _get_own_username(api: DoctorClient) -> str:
    """Return the caller's user name; an empty string if the API server does not report it."""
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    response = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    if isinstance(response, facts.Unavailable) or response.status != _CREATED:
        return ""
    try:
        return msgspec.json.decode(response.body, type=_SelfSubjectReview).status.user_info.username
    except (ValueError, RecursionError):
        return ""


def _review_permission(
    api: DoctorClient, namespace: str, permission: Permission, user: str | None
) -> bool | facts.Unavailable:
    kind = "SelfSubjectAccessReview" if user is None else "SubjectAccessReview"
    response = api.post(
        f"{_AUTHORIZATION_API}/{kind.lower()}s", json.dumps(_build_review(kind, namespace, permission, user)).encode()
    )
    if isinstance(response, facts.Unavailable):
        return response
    if response.status != _CREATED:
        return response.create_unavailable()
    try:
        return msgspec.json.decode(response.body, type=_AccessReview).status.allowed
    except (ValueError, RecursionError) as error:
        return facts.Unavailable(f"the response is not an AdmissionReview: {error}")


def _build_review(kind: str, namespace: str, permission: Permission, user: str | None) -> dict[str, object]:
    resource, _, subresource = permission.resource.partition("/")
    attributes = {"verb": permission.verb, "group": permission.group, "resource": resource}
    attributes |= {"subresource": subresource} if subresource else {}
    attributes |= {"namespace": namespace} if permission.is_namespaced else {}
    attributes |= {"name": permission.name} if permission.name else {}
    spec: dict[str, object] = {"resourceAttributes": attributes}
    if user is not None:
        spec |= {"user": user, "groups": _list_groups(namespace)}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


def _list_groups(namespace: str) -> list[str]:
    """Return the groups of every ServiceAccount (apiserver pkg/authentication/serviceaccount, MakeGroupNames)."""
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


def send_dry_runs(api: DoctorClient, namespace: str) -> tuple[facts.DryRun, ...] | facts.Unavailable:
    """Send two pods as a dry run and return the responses.

    The shipped rules deny the first in the mutating phase. Both phases see the second.
    """
    dry_runs = []
    for name, resources in track("asking the gate about pods", _DRY_RUN_PODS):
        path = f"/api/v1/namespaces/{namespace}/pods"
        response = api.post(path, json.dumps(_build_pod(name, resources)).encode(), {"dryRun": "All"})
        if isinstance(response, facts.Unavailable):
            return response
        message = response.parse_message()
        if response.status == _FORBIDDEN and "cannot create resource" in message:
            return facts.Unavailable(message)
        dry_runs.append(facts.DryRun(name, namespace, response.status, message))
    return tuple(dry_runs)


def choose_namespace(
    configurations: Iterable[WebhookConfiguration], namespaces: tuple[LabelledNamespace, ...] | facts.Unavailable
) -> str:
    """Return a namespace in which the gate is called for pods: `default` if it is one."""
    pod_webhooks = [
        webhook
        for configuration in configurations
        for webhook in configuration.webhooks
        if is_called_for(webhook, CREATE_POD) and not is_for_labels(webhook)
    ]
    known_namespaces = () if isinstance(namespaces, facts.Unavailable) else namespaces
    candidates = sorted(known_namespaces, key=lambda each: (each.name != "default", each.name))
    return next(
        (
            candidate.name
            for candidate in candidates
            if pod_webhooks and all(is_namespace_selected(webhook, candidate) for webhook in pod_webhooks)
        ),
        "default",
    )


def _build_pod(name: str, resources: dict[str, Any]) -> dict[str, Any]:
    """Return a pod that the strictest level of Pod Security accepts."""
    container = {
        "name": "main",
        "image": "none",
        "resources": resources,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "containers": [container],
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def probe_pods(api: DoctorClient, pods: Iterable[GatePod]) -> Iterator[facts.Replica]:
    """Yield a replica for each pod that has not ended, read through the API server's proxy."""
    for pod in pods:
        if pod.status.phase in {"Succeeded", "Failed"}:
            continue
        port = pod.find_port(MONITOR_PORT_NAME, _MONITOR_PORT)
        proxy = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.name}:{port}/proxy"

        def send(path: str, proxy: str = proxy) -> ApiResponse | facts.Unavailable:
            return api.get(f"{proxy}{path}")

        yield _probe_replica(pod.name, send)


def probe_monitors(monitors: tuple[str, ...]) -> Iterator[facts.Replica]:
    """Yield the replicas at these URLs."""
    for url in monitors:
        yield _probe_replica(url, DoctorClient(_create_anonymous_config(url)).get)


def probe_addresses(pods: Iterable[GatePod], limits: ResponseLimits) -> Iterator[facts.Replica]:
    """Yield a replica for each pod that has an address, read from there: only pods of the same cluster reach it."""
    for pod in pods:
        if pod.status.phase in {"Succeeded", "Failed"} or not pod.status.pod_ip:
            continue
        host = f"[{pod.status.pod_ip}]" if ":" in pod.status.pod_ip else pod.status.pod_ip
        config = _create_anonymous_config(f"http://{host}:{pod.find_port(MONITOR_PORT_NAME, _MONITOR_PORT)}")
        yield _probe_replica(pod.name, DoctorClient(config, limits).get)


def _probe_replica(name: str, send: _Send) -> facts.Replica:
    health_response = send("/readyz")
    readiness = _parse_readiness(health_response)
    if isinstance(readiness, facts.Unavailable):  # a silent replica costs half a minute: no second request
        return facts.Replica(name, readiness, readiness)
    clock_offset = None if isinstance(health_response, facts.Unavailable) else health_response.clock_offset
    return facts.Replica(name, readiness, _parse_metrics(send("/metrics")), clock_offset)


def _is_health_response(response: ApiResponse) -> bool:
    return response.is_ok or response.status == _NOT_READY


def _parse_readiness(response: ApiResponse | facts.Unavailable) -> dict[str, Any] | facts.Unavailable:
    """Return the content of `/readyz`, ready or not.

    An API server that cannot reach a pod answers 503 too, but with a Status object.
    """
    if isinstance(response, facts.Unavailable):
        return response
    try:
        content = msgspec.json.decode(response.body)
    except (ValueError, RecursionError):
        content = None
    if _is_health_response(response) and isinstance(content, dict) and isinstance(content.get("checks"), dict):
        return content
    return response.create_unavailable()


def _parse_metrics(response: ApiResponse | facts.Unavailable) -> facts.ReplicaMetrics | facts.Unavailable:
    if isinstance(response, facts.Unavailable):
        return response
    if not response.is_ok:
        return response.create_unavailable()
    samples_by_name = defaultdict[str, list[facts.MetricSample]](list)
    try:
        for family in text_string_to_metric_families(response.body.decode()):
            for sample in family.samples:
                samples_by_name[sample.name].append(facts.MetricSample(sample.labels, sample.value))
    except (ValueError, KeyError, IndexError) as error:
        return facts.Unavailable(f"what /metrics answers are no metrics: {error}"[:_MAX_MESSAGE_CHARACTERS])
    return facts.ReplicaMetrics({name: tuple(samples) for name, samples in samples_by_name.items()})


def _create_anonymous_config(server: str) -> ClientConfig:
    """Create a configuration without credentials, for a server with a certificate that the system trusts."""
    return ClientConfig(server.rstrip("/"), urllib3.PoolManager(), lambda: "")
