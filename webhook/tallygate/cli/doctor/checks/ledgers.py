"""Checks of the ledgers: their CustomResourceDefinition, their leader, and their agreement with the used amounts."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tallygate.cli.doctor.api_types import (
    CustomResourceDefinition,
    GateDeployment,
    LeaderLease,
    ResourceDefinitionVersion,
)
from tallygate.cli.doctor.check_result import (
    Check,
    CheckResult,
    combine_results,
    create_failure,
    create_pass,
    create_unknown,
    create_warning,
    format_kubectl,
    format_names,
    format_namespaced_kubectl,
    format_tallygate,
)
from tallygate.cli.doctor.facts import GateFacts, ReplicaMetrics, Unavailable, detect_features
from tallygate.cli.doctor.permissions import Feature
from tallygate.gate.leader_election import LEADER_LEASE, LEASE_DURATION_SECONDS
from tallygate.state.kubernetes import cap_ledger
from tallygate.state.kubernetes.crd import create_crd

_IN_MEMORY = "the ledgers are in the gate's memory"
_CRD_FILE = "deploy/kustomize/components/cluster-access/crd.yaml"
_CRD_NAME = f"{cap_ledger.PLURAL}.{cap_ledger.GROUP}"
_MIN_REPLICAS = 2
_MAX_LEASE_AGE_SECONDS = 4 * LEASE_DURATION_SECONDS
"""The seconds after which another replica should have acquired the Lease."""


def _has_cluster_ledgers(facts: GateFacts) -> bool | None:
    features = detect_features(facts)
    return None if features is None else Feature.CLUSTER_LEDGERS in features


def _check_definition(facts: GateFacts) -> CheckResult:
    stored_definition = facts.ledger_definition
    if isinstance(stored_definition, Unavailable):
        return create_unknown(f"the CustomResourceDefinition {_CRD_NAME} cannot be read: {stored_definition.reason}")
    if stored_definition is None:
        return _report_missing_definition(facts)
    results = list(_check_version(facts, stored_definition))
    return combine_results(
        results, create_pass(f"{_CRD_NAME} serves and stores {cap_ledger.VERSION}, as this version writes it")
    )


def _report_missing_definition(facts: GateFacts) -> CheckResult:
    reason = f"there is no CustomResourceDefinition {_CRD_NAME}"
    match _has_cluster_ledgers(facts):
        case True:
            return create_failure(
                f"{reason}, and the gate has its ledgers in the cluster: it rejects every request under a cap",
                _format_apply(facts),
            )
        case False:
            return create_pass(f"none is needed: {_IN_MEMORY}")
        case _:
            return create_unknown(f"{reason}, and whether the gate needs one cannot be seen")


def _check_version(facts: GateFacts, stored_definition: CustomResourceDefinition) -> Iterator[CheckResult]:
    stored_version = next(
        (version for version in stored_definition.spec.versions if version.name == cap_ledger.VERSION), None
    )
    if stored_version is None or not stored_version.served or not stored_version.storage:
        state = (
            "is not there"
            if stored_version is None
            else "is not served"
            if not stored_version.served
            else ("is not what is stored")
        )
        yield create_failure(f"version {cap_ledger.VERSION} of {_CRD_NAME} {state}", _format_apply(facts))
        return
    if not any(
        condition.type == "Established" and condition.status == "True"
        for condition in stored_definition.status.conditions or ()
    ):
        yield create_failure(
            f"{_CRD_NAME} is not established: the API server does not serve it",
            format_kubectl(facts.location, "describe", "crd", _CRD_NAME),
        )
    missing_fields = sorted(
        _find_missing_fields(_get_own_schema(create_crd()["spec"]["versions"][0]), _get_stored_schema(stored_version))
    )
    if missing_fields:
        yield create_failure(
            f"{_CRD_NAME} is of an older version, so each write loses the fields that it does not have: "
            f"{format_names(missing_fields)}",
            _format_apply(facts),
        )
    old_versions = [
        version for version in stored_definition.status.stored_versions or () if version != cap_ledger.VERSION
    ]
    if old_versions:
        yield create_warning(f"objects of {format_names(old_versions)} may still be stored")


def _format_apply(facts: GateFacts) -> str:
    return format_kubectl(facts.location, "apply", "--server-side", "--force-conflicts", f"--filename={_CRD_FILE}")


def _get_own_schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def _get_stored_schema(version: ResourceDefinitionVersion) -> Mapping[str, Any]:
    schema = version.schema.get("openAPIV3Schema")
    return schema if isinstance(schema, dict) else {}


def _find_missing_fields(
    own_schema: Mapping[str, Any], stored_schema: Mapping[str, Any], path: str = ""
) -> Iterator[str]:
    """Yield the fields that this version writes and the stored schema would prune."""
    stored_properties = stored_schema.get("properties") if isinstance(stored_schema, dict) else None
    stored_properties = stored_properties if isinstance(stored_properties, dict) else {}
    for name, schema in (own_schema.get("properties") or {}).items():
        field_path = f"{path}{name}"
        if name not in stored_properties:
            yield field_path
        else:
            yield from _find_missing_fields(schema, stored_properties[name], f"{field_path}.")


def _check_leader(facts: GateFacts) -> CheckResult:
    if _has_cluster_ledgers(facts) is False:
        return _check_standalone(facts)
    lease = facts.lease
    if isinstance(lease, Unavailable):
        return create_unknown(f"the Lease {LEADER_LEASE} cannot be read: {lease.reason}")
    if lease is None:
        reason = f"there is no Lease {facts.location.namespace}/{LEADER_LEASE}"
        if _has_cluster_ledgers(facts) is None or not _has_running_replica(facts):
            return create_unknown(f"{reason}: the gate has its ledgers in memory, or does not run")
        return create_warning(
            f"{reason}: every replica reconciles ledgers, and work is repeated",
            *_list_permission_commands(facts),
        )
    return _check_lease_age(facts, lease)


def _check_standalone(facts: GateFacts) -> CheckResult:
    """Check that ledgers in memory have a single replica."""
    desired = facts.deployment.spec.replicas if isinstance(facts.deployment, GateDeployment) else 0
    observed = 0 if isinstance(facts.replicas, Unavailable) else len(facts.replicas)
    if max(desired, observed) < _MIN_REPLICAS:
        return create_pass(f"none is needed: {_IN_MEMORY}")
    reason = (
        f"{max(desired, observed)} replicas have ledgers in memory, each its own: each admits all that a cap allows"
    )
    fix_commands = (
        ()
        if facts.is_called_by_url
        else (format_namespaced_kubectl(facts.location, "scale", "deployment/tallygate", "--replicas=1"),)
    )
    return create_failure(reason, *fix_commands)


def _has_running_replica(facts: GateFacts) -> bool:
    """Return whether the readiness of any replica could be read."""
    replicas = () if isinstance(facts.replicas, Unavailable) else facts.replicas
    return any(not isinstance(replica.readiness, Unavailable) for replica in replicas)


def _check_lease_age(facts: GateFacts, lease: LeaderLease) -> CheckResult:
    renewed_at = parse_time(lease.spec.renew_time)
    if not lease.spec.holder_identity or renewed_at is None:
        reason = f"the Lease {LEADER_LEASE} has no holder, as for some seconds after a rollout: run this again"
        return create_warning(
            f"{reason}; without a leader, reservations of pods that never come do not expire",
            *_list_log_commands(facts),
        )
    age_seconds = (facts.now + timedelta(seconds=facts.clock_offset or 0.0) - renewed_at).total_seconds()
    if age_seconds > _MAX_LEASE_AGE_SECONDS:
        reason = (
            f"{lease.spec.holder_identity} has not renewed the Lease {LEADER_LEASE} for {age_seconds:.0f} s, and "
            "no replica has acquired it"
        )
        return create_failure(
            f"{reason}: reservations of pods that never come do not expire", *_list_log_commands(facts)
        )
    return create_pass(
        f"{lease.spec.holder_identity} is the leader, and renewed the Lease {max(age_seconds, 0):.0f} s ago"
    )


def parse_time(text: str | None) -> datetime | None:
    """Return a time in Kubernetes' format; None if it is invalid."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _list_permission_commands(facts: GateFacts) -> tuple[str, ...]:
    if facts.is_called_by_url:
        return ()
    return (
        format_namespaced_kubectl(facts.location, "auth", "can-i", "create", "leases", facts.location.impersonation),
    )


def _list_log_commands(facts: GateFacts) -> tuple[str, ...]:
    if facts.is_called_by_url:
        return ()
    return (
        format_namespaced_kubectl(facts.location, "logs", "--selector=app.kubernetes.io/component=gate", "--tail=50"),
    )


def _check_ledgers(facts: GateFacts) -> CheckResult:
    if isinstance(facts.replicas, Unavailable):
        return create_unknown(facts.replicas.reason)
    readable = [
        (replica.name, replica.metrics) for replica in facts.replicas if not isinstance(replica.metrics, Unavailable)
    ]
    if not readable:
        return create_unknown("no replica's metrics can be read")
    results = [metric for name, metrics in readable for metric in _check_ledger_metrics(facts, name, metrics)]
    cap_count = max((metrics.get_value("policy_caps") or 0.0 for _, metrics in readable), default=0.0)
    return combine_results(results, create_pass(f"no drift was found since the start; active caps: {cap_count:.0f}"))


_WARNED_STATES = (
    ("initializing", "are counted first, and reserve nothing yet"),
    ("new", "of new caps are counted first, and enforce nothing yet"),
    ("exceeded", "use more than their limit"),
)


def _check_ledger_metrics(facts: GateFacts, name: str, metrics: ReplicaMetrics) -> Iterator[CheckResult]:
    drifted_caps = [
        f"{sample.labels.get('cap')} ({sample.value:.0f})"
        for sample in metrics.list_samples("ledger_drift_total")
        if sample.value
    ]
    if drifted_caps:
        reason = (
            f"{name} has found pods that bypassed the gate, by cap and number of recounts since its start: "
            f"{format_names(drifted_caps)}"
        )
        yield create_warning(reason, format_tallygate(facts.location, "usage", "--verify", "--policies", "policies/"))
    for state, meaning in _WARNED_STATES:
        caps = [
            f"{sample.labels.get('cap')} ({sample.value:.0f})"
            for sample in metrics.list_samples("cap_ledgers")
            if sample.labels.get("state") == state and sample.value
        ]
        if caps:
            yield create_warning(
                f"ledgers {meaning}: {format_names(caps)}",
                format_tallygate(facts.location, "usage", "--policies", "policies/"),
            )
    failures = sum(
        sample.value
        for sample in metrics.list_samples("ledger_reconcile_total")
        if sample.labels.get("result") == "failed"
    )
    if failures:
        yield create_warning(
            f"{name} could not reconcile ledgers {failures:.0f} times since its start", *_list_log_commands(facts)
        )


CHECKS = (
    Check(
        "crd",
        "CapLedgers can be stored as this version writes them",
        "FAIL: the definition is missing though ledgers are in the cluster, does not store v1alpha1, or lacks a field",
        _check_definition,
    ),
    Check(
        "leader",
        "One replica is the leader, which reconciles the ledgers",
        f"FAIL: the Lease was not renewed for {_MAX_LEASE_AGE_SECONDS:.0f} s, or several replicas have ledgers in "
        "memory; WARN: the Lease has no holder",
        _check_leader,
    ),
    Check(
        "ledgers",
        "Ledgers agree with the pods",
        "WARN: pods bypassed the gate, a cap is exceeded, initializing or new, ledgers could not be reconciled",
        _check_ledgers,
    ),
)
