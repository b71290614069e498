"""The facts of a healthy gate in a cluster, with changes."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding

from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.self_registration import ASKED_ANNOTATION, BY_GATE, REGISTRATION_ANNOTATION, format_asked
from tallygate.admission.webhook_configuration import ServiceTarget
from tallygate.admission.workload_resources import WorkloadResource
from tallygate.cli.doctor.api_types import (
    CustomResourceDefinition,
    GateDeployment,
    GateDisruptionBudget,
    GateNetworkPolicy,
    GatePod,
    LabelledNamespace,
    LeaderLease,
    TlsSecret,
)
from tallygate.cli.doctor.check_result import CheckResult, CheckStatus
from tallygate.cli.doctor.command import CHECKS
from tallygate.cli.doctor.facts import (
    DryRun,
    GateFacts,
    GateLocation,
    MetricSample,
    PermissionResult,
    Replica,
    ReplicaMetrics,
)
from tallygate.cli.doctor.permissions import PERMISSIONS
from tallygate.cli.doctor.probe import ALLOWED_POD, DENIED_POD
from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.policy.model import PolicySet
from tallygate.state.kubernetes.crd import create_crd
from tallygate_certs.authority import KeyPair, create_ca, create_serving_certificate
from tallygate_certs.certificate_names import create_service_names
from tests.admission.plain_configurations import create_plain_configurations

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
OWN = "tallygate-system"
LABELS = {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "gate"}
ARGUMENTS = ("serve", "--cluster=in-cluster", "--ledgers=kubernetes")
POLICIES = {"ready": True, "digest": "0123456789abcdef", "rules": 3, "caps": 1}
WATCHED = {"objects": 7, "revision": 900, "ageSeconds": 1.0}
READY: dict[str, Any] = {
    "status": "ready",
    "checks": {
        "policies": POLICIES,
        "serving": {"ready": True, "state": "serving"},
        "certificate": {"ready": True},
        "watches": {"ready": True, "pods": WATCHED, "namespaces": WATCHED},
        "ledgers": {"ready": True, "unsettled": 0},
        "leader-election": {"ready": True, "leader": True},
    },
}

Object = dict[str, Any]


@cache
def get_ca() -> KeyPair:
    """Return the CA of the gate."""
    return create_ca(NOW - timedelta(days=10))


@cache
def leaf(made: datetime = NOW - timedelta(days=10), service: str = "tallygate") -> KeyPair:
    """Return the serving certificate for a Service of this name, created at this time."""
    return create_serving_certificate(get_ca(), create_service_names(service, OWN), made)


def encode_pem(pair: KeyPair) -> bytes:
    """Encode the certificate without its key."""
    return pair.certificate.public_bytes(Encoding.PEM)


def create_registration(
    change: Callable[[Object, Object], None] = lambda _mutating, _validating: None,
    resources: Sequence[WorkloadResource] = (),
) -> dict[str, Any]:
    """Return both webhook configurations of a gate after a change of their JSON."""
    trusted = encode_pem(get_ca())
    pair = copy.deepcopy(create_plain_configurations(ServiceTarget(), ca_bundle=trusted, workload_resources=resources))
    change(*pair)
    return {
        "mutating": msgspec.convert(pair[0], WebhookConfiguration),
        "validating": msgspec.convert(pair[1], WebhookConfiguration),
    }


def create_conditioned(policies: PolicySet) -> dict[str, Any]:
    """Return both configurations as the gate writes them for these policies."""
    conditions = MatchConditions(policies)
    annotations = {
        REGISTRATION_ANNOTATION: BY_GATE,
        ASKED_ANNOTATION: format_asked(dict.fromkeys(conditions.digests, 1)),
    }
    trusted = encode_pem(get_ca())
    pair = create_plain_configurations(ServiceTarget(), ca_bundle=trusted, conditions=conditions)
    for configuration in pair:
        configuration["metadata"]["annotations"] = annotations
    mutating, validating = (msgspec.convert(configuration, WebhookConfiguration) for configuration in pair)
    return {"mutating": mutating, "validating": validating}


def webhook(configuration: Object, name: str) -> Object:
    """Return one webhook of a configuration, for a change in place."""
    found: list[Object] = [each for each in configuration["webhooks"] if each["name"] == name]
    return found[0]


def deployment(replicas: int = 2, ready: int = 2, arguments: tuple[str, ...] = ARGUMENTS) -> GateDeployment:
    """Return the Deployment of the gate."""
    return msgspec.convert(
        {
            "metadata": {"name": "tallygate"},
            "spec": {
                "replicas": replicas,
                "template": {
                    "metadata": {"labels": LABELS},
                    "spec": {"containers": [{"name": "tallygate", "args": list(arguments)}]},
                },
            },
            "status": {"readyReplicas": ready},
        },
        GateDeployment,
    )


def budget(allowed: int = 1, labels: dict[str, str] = LABELS) -> GateDisruptionBudget:
    """Return a PodDisruptionBudget for pods with these labels."""
    return msgspec.convert(
        {
            "metadata": {"name": "tallygate"},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": allowed, "expectedPods": 2},
        },
        GateDisruptionBudget,
    )


def create_network_policy(
    labels: dict[str, str] = LABELS, types: tuple[str, ...] = ("Ingress",), rule: Object | None = None
) -> GateNetworkPolicy:
    """Return a NetworkPolicy for pods with these labels, whose port of reviews is open for one address, or a rule."""
    reviews = {"ports": [{"port": "https"}], "from": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]} | (rule or {})
    metrics = {"ports": [{"port": "monitor"}]}
    spec = {"podSelector": {"matchLabels": labels}, "policyTypes": types, "ingress": [metrics, reviews]}
    return msgspec.convert({"metadata": {"name": "tallygate"}, "spec": spec}, GateNetworkPolicy)


def create_definition(change: Callable[[Object], None] = lambda _: None) -> CustomResourceDefinition:
    """Return the CRD of CapLedger as an API server stores it, after a change of its JSON."""
    stored = create_crd() | {
        "status": {"storedVersions": ["v1alpha1"], "conditions": [{"type": "Established", "status": "True"}]}
    }
    stored = copy.deepcopy(stored)
    change(stored)
    return msgspec.convert(stored, CustomResourceDefinition)


def create_lease(renewed: timedelta = timedelta(seconds=-2), holder: str | None = "pod-a") -> LeaderLease:
    """Return the Lease of the leader."""
    when = f"{NOW + renewed:%Y-%m-%dT%H:%M:%S.%fZ}"
    return msgspec.convert(
        {"metadata": {"name": "tallygate-leader"}, "spec": {"holderIdentity": holder, "renewTime": when}}, LeaderLease
    )


def secret(chain: bytes | None = None) -> TlsSecret:
    """Return the Secret with the serving certificate."""
    data = {"tls.crt": encode_pem(leaf()) if chain is None else chain}
    return msgspec.convert({"metadata": {"name": "tallygate-tls"}, "data": data}, TlsSecret)


def metrics(**series: float | list[tuple[dict[str, str], float]]) -> ReplicaMetrics:
    """Return the metrics of a healthy replica with changed series; a number stands for a series without labels."""
    healthy: dict[str, float | list[tuple[dict[str, str], float]]] = {
        "policy_broken": 0.0,
        "policy_rules": 3.0,
        "policy_caps": 1.0,
        "certificate_not_after_timestamp_seconds": leaf().certificate.not_valid_after_utc.timestamp(),
        "build_info": [({"version": "1.0", "python": "3.11"}, 1.0)],
        "watch_age_seconds": [({"resource": "pods"}, 1.0), ({"resource": "namespaces"}, 1.0)],
        "ledger_drift_total": [({"cap": "gpus"}, 0.0)],
        "cap_ledgers": [({"cap": "gpus", "state": "available"}, 4.0), ({"cap": "gpus", "state": "exceeded"}, 0.0)],
    }
    samples = {
        f"tallygate_{name}": tuple(
            MetricSample(labels, value) for labels, value in ([({}, given)] if isinstance(given, float) else given)
        )
        for name, given in (healthy | series).items()
    }
    return ReplicaMetrics(samples)


def replica(
    name: str = "pod-a", readiness: Object = READY, samples: ReplicaMetrics | None = None, ahead: float = 0.0
) -> Replica:
    """Return a healthy replica."""
    return Replica(name, readiness, metrics() if samples is None else samples, ahead)


def with_check(name: str, **detail: Any) -> Object:
    """Return the body of `/readyz` with changed details of one check."""
    checks = READY["checks"]
    return READY | {"checks": checks | {name: {**checks.get(name, {}), **detail}}}


def list_namespaces() -> tuple[LabelledNamespace, ...]:
    """Return the namespaces of the cluster."""
    names = ("default", "kube-system", OWN, "team-a")
    return tuple(LabelledNamespace(name, {"kubernetes.io/metadata.name": name}) for name in names)


def create_facts(**changes: Any) -> GateFacts:
    """Return the facts of a healthy gate with two replicas, after these changes."""
    facts = GateFacts(
        now=NOW,
        version="1.0",
        location=GateLocation(OWN),
        clock_offset=0.0,
        **create_registration(),
        other_configurations=(),
        namespaces=list_namespaces(),
        dry_runs=(
            DryRun(DENIED_POD, "default", 403, 'admission webhook "mutate.tallygate.dev" denied the request: halves'),
            DryRun(ALLOWED_POD, "default", 201, ""),
        ),
        secret=secret(),
        served_certificate=None,
        deployment=deployment(),
        disruption_budgets=(budget(),),
        pods=tuple(msgspec.convert({"metadata": {"name": name}}, GatePod) for name in ("pod-a", "pod-b")),
        replicas=(replica(), replica("pod-b")),
        permissions=tuple(PermissionResult(right, allowed=True) for right in PERMISSIONS),
        ledger_definition=create_definition(),
        lease=create_lease(),
        quotas=(),
        cap_limits=(),
        policies=PolicySet(),
        opaque_name_users=(),
        network_policies=(create_network_policy(),),
    )
    return replace(facts, **changes)


def run_check(check: str, facts: GateFacts) -> CheckResult:
    """Return the result of one check."""
    (found,) = (each for each in CHECKS if each.name == check)
    return found.run(facts)


def find_failures(facts: GateFacts) -> dict[str, CheckStatus]:
    """Return the status of every check whose status is not PASS."""
    return {each.name: found for each in CHECKS if (found := each.run(facts).status) is not CheckStatus.PASS}
