"""Facts of a gate that is well, as a cluster has it, and what may be different about it."""

import copy
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding

from certs.authority import KeyPair, create_ca, create_serving_certificate
from certs.certificate_names import create_service_names
from webhook.admission.webhook_configuration import ServiceTarget, create_webhook_configurations
from webhook.cli.doctor.api_types import (
    CustomResourceDefinition,
    GateDeployment,
    GateDisruptionBudget,
    GatePod,
    LabelledNamespace,
    LeaderLease,
    TlsSecret,
    WebhookConfiguration,
)
from webhook.cli.doctor.check_result import CheckResult, CheckStatus
from webhook.cli.doctor.command import CHECKS
from webhook.cli.doctor.facts import (
    DryRun,
    GateFacts,
    GateLocation,
    MetricSample,
    PermissionResult,
    Replica,
    ReplicaMetrics,
)
from webhook.cli.doctor.permissions import PERMISSIONS
from webhook.cli.doctor.probe import ALLOWED_POD, DENIED_POD
from webhook.state.kubernetes.crd import create_crd

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
def authority() -> KeyPair:
    """Who signs for the gate."""
    return create_ca(NOW - timedelta(days=10))


@cache
def leaf(made: datetime = NOW - timedelta(days=10), service: str = "tallygate") -> KeyPair:
    """What the gate serves with, made at this time, for a Service of this name."""
    return create_serving_certificate(authority(), create_service_names(service, OWN), made)


def pem(pair: KeyPair) -> bytes:
    """The certificate alone."""
    return pair.certificate.public_bytes(Encoding.PEM)


def registered(change: Callable[[Object, Object], None] = lambda _mutating, _validating: None) -> dict[str, Any]:
    """Both configurations as a gate registers them, after a change of their JSON."""
    pair = copy.deepcopy(create_webhook_configurations(ServiceTarget(), ca_bundle=pem(authority())))
    change(*pair)
    return {
        "mutating": msgspec.convert(pair[0], WebhookConfiguration),
        "validating": msgspec.convert(pair[1], WebhookConfiguration),
    }


def webhook(configuration: Object, name: str) -> Object:
    """One webhook of a configuration, to be changed."""
    found: list[Object] = [each for each in configuration["webhooks"] if each["name"] == name]
    return found[0]


def deployment(replicas: int = 2, ready: int = 2, arguments: tuple[str, ...] = ARGUMENTS) -> GateDeployment:
    """The gate's Deployment."""
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
    """A PodDisruptionBudget over pods with these labels."""
    return msgspec.convert(
        {
            "metadata": {"name": "tallygate"},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": allowed, "expectedPods": 2},
        },
        GateDisruptionBudget,
    )


def defined(change: Callable[[Object], None] = lambda _: None) -> CustomResourceDefinition:
    """The definition of CapLedger as an API server has it, after a change of its JSON."""
    stored = create_crd() | {
        "status": {"storedVersions": ["v1alpha1"], "conditions": [{"type": "Established", "status": "True"}]}
    }
    stored = copy.deepcopy(stored)
    change(stored)
    return msgspec.convert(stored, CustomResourceDefinition)


def lease(renewed: timedelta = timedelta(seconds=-2), holder: str | None = "pod-a") -> LeaderLease:
    """The keeper's."""
    when = f"{NOW + renewed:%Y-%m-%dT%H:%M:%S.%fZ}"
    return msgspec.convert(
        {"metadata": {"name": "tallygate-leader"}, "spec": {"holderIdentity": holder, "renewTime": when}}, LeaderLease
    )


def secret(chain: bytes | None = None) -> TlsSecret:
    """What the gate serves with."""
    data = {"tls.crt": pem(leaf()) if chain is None else chain}
    return msgspec.convert({"metadata": {"name": "tallygate-tls"}, "data": data}, TlsSecret)


def metrics(**series: float | list[tuple[dict[str, str], float]]) -> ReplicaMetrics:
    """What a replica tells, beside what every one does; a number for a series without labels."""
    told: dict[str, float | list[tuple[dict[str, str], float]]] = {
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
        for name, given in (told | series).items()
    }
    return ReplicaMetrics(samples)


def replica(
    name: str = "pod-a", readiness: Object = READY, told: ReplicaMetrics | None = None, ahead: float = 0.0
) -> Replica:
    """One that is well."""
    return Replica(name, readiness, metrics() if told is None else told, ahead)


def with_check(name: str, **detail: Any) -> Object:
    """What `/readyz` says where one of the checks says this."""
    checks = READY["checks"]
    return READY | {"checks": checks | {name: {**checks.get(name, {}), **detail}}}


def well(**changes: Any) -> GateFacts:
    """A gate of two replicas that is well, but for these changes."""
    facts = GateFacts(
        now=NOW,
        version="1.0",
        location=GateLocation(OWN, "tallygate"),
        clock_offset=0.0,
        **registered(),
        other_configurations=(),
        namespaces=tuple(
            LabelledNamespace(name, {"kubernetes.io/metadata.name": name})
            for name in ("default", "kube-system", OWN, "team-a")
        ),
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
        ledger_definition=defined(),
        lease=lease(),
        quotas=(),
        cap_limits=(),
        opaque_name_users=(),
    )
    return replace(facts, **changes)


def said(check: str, facts: GateFacts) -> CheckResult:
    """What one check comes to."""
    (found,) = (each for each in CHECKS if each.name == check)
    return found.run(facts)


def level(check: str, facts: GateFacts) -> CheckStatus:
    """How one check stands."""
    return said(check, facts).status


def wrong(facts: GateFacts) -> dict[str, CheckStatus]:
    """Every check that is not PASS."""
    return {each.name: found for each in CHECKS if (found := each.run(facts).status) is not CheckStatus.PASS}
