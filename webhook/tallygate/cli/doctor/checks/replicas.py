"""Checks of the replicas of the gate: what they report, their ledgers and their leader, permissions and clocks."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE
from tallygate.cli.doctor import check_result
from tallygate.cli.doctor.api_types import (
    CustomResourceDefinition,
    GateDeployment,
    LeaderLease,
    ResourceDefinitionVersion,
)
from tallygate.cli.doctor.facts import GateFacts, Replica, ReplicaMetrics, Unavailable, detect_features
from tallygate.cli.doctor.permissions import PERMISSIONS, Feature, Permission
from tallygate.gate.leader_election import LEADER_LEASE, LEASE_DURATION_SECONDS
from tallygate.state.kubernetes import cap_ledger
from tallygate.state.kubernetes.crd import create_crd

STALE_SECONDS = 120.0
"""The seconds after which the data of a watch is stale (docs/operate/metrics.md)."""
_MAX_MESSAGE_CHARACTERS = 200
_NO_REPLICA = "no replica runs"
_DIGEST_LENGTH = 12
_FAILURE_KEYS = ("failure", "error")
WARN_OFFSET_SECONDS, FAIL_OFFSET_SECONDS = 5.0, 300.0
"""Seconds. A `Date` has no fractions and some latency. From five minutes on, new tokens and certificates are not valid
yet.
"""


def _format_count(count: int) -> str:
    return f"{count} replica{'s' * (count != 1)}"


@check_result.check(
    "replicas",
    "Every replica is ready",
    "FAIL: none runs, or one is not ready; WARN: fewer than wanted, other versions, a fault that one reports",
)
def check_replicas(facts: GateFacts) -> check_result.CheckResult:
    if isinstance(facts.replicas, Unavailable):
        return check_result.create_unknown(facts.replicas.reason)
    if not facts.replicas:
        return check_result.create_failure(_NO_REPLICA, *_list_describe_commands(facts))
    results = [result for replica in facts.replicas for result in _check_readiness(facts, replica)]
    results += _check_replica_count(facts)
    results += _check_versions(facts.replicas, facts.version)
    count_text = _format_count(len(facts.replicas))
    return check_result.combine_results(
        results,
        check_result.create_pass(
            f"{count_text} ready: {check_result.format_names([replica.name for replica in facts.replicas])}"
        ),
    )


def _check_readiness(facts: GateFacts, replica: Replica) -> Iterator[check_result.CheckResult]:
    if isinstance(replica.readiness, Unavailable):
        yield check_result.create_unknown(f"/readyz of {replica.name} cannot be read: {replica.readiness.reason}")
        return
    failing_checks = [name for name, detail in replica.list_checks() if detail.get("ready") is not True]
    if failing_checks or replica.readiness.get("status") != "ready":
        yield check_result.create_failure(
            f"{replica.name} is not ready: {check_result.format_names(failing_checks) or 'it does not say why'}",
            *_list_log_commands(facts, replica),
        )
    for name, detail in replica.list_checks():
        failure = next((detail[key] for key in _FAILURE_KEYS if detail.get(key)), None)
        if failure:
            yield check_result.create_warning(
                f"{replica.name}, {name}: {str(failure)[:_MAX_MESSAGE_CHARACTERS]}", *_list_log_commands(facts, replica)
            )


def _check_replica_count(facts: GateFacts) -> Iterator[check_result.CheckResult]:
    deployment = facts.deployment
    if isinstance(deployment, GateDeployment) and deployment.status.ready_replicas < deployment.spec.replicas:
        count_text = f"{deployment.status.ready_replicas} of {deployment.spec.replicas} replicas are ready"
        yield check_result.create_warning(count_text, *_list_describe_commands(facts))


def _check_versions(replicas: tuple[Replica, ...], own_version: str) -> Iterator[check_result.CheckResult]:
    versions = sorted(
        {
            sample.labels.get("version", "")
            for replica in replicas
            if not isinstance(replica.metrics, Unavailable)
            for sample in replica.metrics.list_samples("build_info")
        }
    )
    if len(versions) > 1:
        yield check_result.create_warning(
            f"replicas of several versions run: {check_result.format_names(versions)}; "
            "while an upgrade is under way that is so"
        )
    elif versions and versions != [own_version]:
        yield check_result.create_warning(
            f"replicas are of version {check_result.format_names(versions)}, "
            f"and what is asked of them here is that of {own_version}"
        )


@check_result.check(
    "policies",
    "Every replica has the policies as they are written",
    "FAIL: the files are broken and an earlier set is active; WARN: different sets, or an empty one",
)
def check_policies(facts: GateFacts) -> check_result.CheckResult:
    if isinstance(facts.replicas, Unavailable):
        return check_result.create_unknown(facts.replicas.reason)
    if not facts.replicas:
        return check_result.create_unknown(_NO_REPLICA)
    results = [result for replica in facts.replicas for result in _check_active_policies(facts, replica)]
    results += _compare_digests(facts.replicas)
    return check_result.combine_results(
        results,
        check_result.create_pass(
            f"the policies as they are written are active in {_format_count(len(facts.replicas))}"
        ),
    )


def _compare_digests(replicas: tuple[Replica, ...]) -> Iterator[check_result.CheckResult]:
    digests = defaultdict[str, list[str]](list)
    for replica in replicas:
        if digest := (replica.find_check("policies") or {}).get("digest"):
            digests[str(digest)[:_DIGEST_LENGTH]].append(replica.name)
    if len(digests) > 1:
        digests_text = "; ".join(
            f"{digest} in {check_result.format_names(names)}" for digest, names in sorted(digests.items())
        )
        yield check_result.create_warning(
            f"replicas go by different policies, as for a minute after an edit: {digests_text}"
        )


def _check_active_policies(facts: GateFacts, replica: Replica) -> Iterator[check_result.CheckResult]:
    detail, metrics = replica.find_check("policies"), replica.metrics
    if detail is None and isinstance(metrics, Unavailable):
        yield check_result.create_unknown(f"{replica.name} cannot be asked: {metrics.reason}")
        return
    broken = (detail or {}).get("broken") or (detail or {}).get("crash")
    is_broken = not isinstance(metrics, Unavailable) and metrics.get_value("policy_broken") == 1
    if broken or is_broken:
        first = broken[0] if isinstance(broken, list) and broken else broken or "its log says what"
        reason = (
            f"{replica.name} goes by an earlier set, for the files are broken: {str(first)[:_MAX_MESSAGE_CHARACTERS]}"
        )
        yield check_result.create_failure(reason, *_list_lint_commands(facts))
    rules, caps = (_get_policy_count(replica, name) for name in ("rules", "caps"))
    if rules == 0 and caps == 0:
        yield check_result.create_warning(
            f"{replica.name} has neither an active rule nor an active cap: it denies nothing",
            *_list_lint_commands(facts),
        )


def _get_policy_count(replica: Replica, name: str) -> float | None:
    if not isinstance(replica.metrics, Unavailable):
        return replica.metrics.get_value(f"policy_{name}")
    count = (replica.find_check("policies") or {}).get(name)
    return float(count) if isinstance(count, int) else None


def _list_lint_commands(facts: GateFacts) -> tuple[str, ...]:
    if facts.is_called_by_url:
        return ("tallygate lint policies/",)
    configmap_command = check_result.format_namespaced_kubectl(
        facts.location, "get", "configmap", "tallygate-policies", "--output=yaml"
    )
    return ("tallygate lint policies/", configmap_command)


@check_result.check(
    "watches",
    "What the gate has seen of the cluster is current",
    f"FAIL: a watch is older than {STALE_SECONDS:.0f} s, or pods or namespaces could not be listed",
)
def check_watches(facts: GateFacts) -> check_result.CheckResult:
    if isinstance(facts.replicas, Unavailable):
        return check_result.create_unknown(facts.replicas.reason)
    if not facts.replicas:
        return check_result.create_unknown(_NO_REPLICA)
    watching = [replica for replica in facts.replicas if replica.find_check("watches") is not None]
    if not watching and any(tuple(replica.list_checks()) for replica in facts.replicas):
        return check_result.create_pass(
            "the gate follows no cluster: caps are charged and never given back while it runs (docs/concepts/caps.md)"
        )
    results = [age for replica in facts.replicas for age in _check_watch_ages(facts, replica)]
    return check_result.combine_results(
        results, check_result.create_pass(f"what is seen by {_format_count(len(facts.replicas))} is current")
    )


def _check_watch_ages(facts: GateFacts, replica: Replica) -> Iterator[check_result.CheckResult]:
    detail = replica.find_check("watches")
    if isinstance(replica.metrics, Unavailable) and detail is None:
        yield check_result.create_unknown(f"{replica.name} cannot be asked: {replica.metrics.reason}")
        return
    ages = _get_watch_ages(replica)
    for name, status in (detail or {}).items():
        if isinstance(status, dict) and status.get("revision") is None:
            create_result = (
                check_result.create_failure if name in {"pods", "namespaces"} else check_result.create_warning
            )
            reason = str(status.get("stale") or status.get("crash") or "it has not come yet")[:_MAX_MESSAGE_CHARACTERS]
            yield create_result(f"{replica.name} has no list of {name}: {reason}", *_list_permission_commands(facts))
    for name, age in ages.items():
        if age > STALE_SECONDS:
            yield check_result.create_failure(
                f"what {replica.name} knows of {name} is {age:.0f} s old", *_list_log_commands(facts, replica)
            )


def _get_watch_ages(replica: Replica) -> dict[str, float]:
    if not isinstance(replica.metrics, Unavailable):
        return {
            sample.labels.get("resource", ""): sample.value
            for sample in replica.metrics.list_samples("watch_age_seconds")
        }
    statuses = (replica.find_check("watches") or {}).items()
    ages = {name: status.get("ageSeconds") for name, status in statuses if isinstance(status, dict)}
    return {name: float(age) for name, age in ages.items() if isinstance(age, int | float)}


def _list_permission_commands(facts: GateFacts) -> tuple[str, ...]:
    return (
        ()
        if facts.is_called_by_url
        else (
            check_result.format_namespaced_kubectl(
                facts.location, "auth", "can-i", "--list", facts.location.impersonation
            ),
        )
    )


def _list_log_commands(facts: GateFacts, replica: Replica) -> tuple[str, ...]:
    return (
        ()
        if facts.is_called_by_url
        else (check_result.format_namespaced_kubectl(facts.location, "logs", replica.name, "--tail=50"),)
    )


def _list_describe_commands(facts: GateFacts) -> tuple[str, ...]:
    selector = "--selector=app.kubernetes.io/component=gate"
    return (
        ()
        if facts.is_called_by_url
        else (check_result.format_namespaced_kubectl(facts.location, "describe", "pods", selector),)
    )


_IN_MEMORY = "the ledgers are in the gate's memory"
_CRD_FILE = "deploy/kustomize/components/cluster-access/crd.yaml"
_CRD_NAME = f"{cap_ledger.PLURAL}.{cap_ledger.GROUP}"
_MIN_REPLICAS = 2
_MAX_LEASE_AGE_SECONDS = 4 * LEASE_DURATION_SECONDS
"""The seconds after which another replica should have acquired the Lease."""


def _has_cluster_ledgers(facts: GateFacts) -> bool | None:
    features = detect_features(facts)
    return None if features is None else Feature.CLUSTER_LEDGERS in features


@check_result.check(
    "crd",
    "CapLedgers can be stored as this version writes them",
    "FAIL: the definition is missing though ledgers are in the cluster, does not store v1alpha1, or lacks a field",
)
def check_definition(facts: GateFacts) -> check_result.CheckResult:
    stored_definition = facts.ledger_definition
    if isinstance(stored_definition, Unavailable):
        return check_result.create_unknown(
            f"the CustomResourceDefinition {_CRD_NAME} cannot be read: {stored_definition.reason}"
        )
    if stored_definition is None:
        return _report_missing_definition(facts)
    results = list(_check_version(facts, stored_definition))
    return check_result.combine_results(
        results,
        check_result.create_pass(f"{_CRD_NAME} serves and stores {cap_ledger.VERSION}, as this version writes it"),
    )


def _report_missing_definition(facts: GateFacts) -> check_result.CheckResult:
    reason = f"there is no CustomResourceDefinition {_CRD_NAME}"
    match _has_cluster_ledgers(facts):
        case True:
            return check_result.create_failure(
                f"{reason}, and the gate has its ledgers in the cluster: it rejects every request under a cap",
                _format_apply(facts),
            )
        case False:
            return check_result.create_pass(f"none is needed: {_IN_MEMORY}")
        case _:
            return check_result.create_unknown(f"{reason}, and whether the gate needs one cannot be seen")


def _check_version(facts: GateFacts, stored_definition: CustomResourceDefinition) -> Iterator[check_result.CheckResult]:
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
        yield check_result.create_failure(f"version {cap_ledger.VERSION} of {_CRD_NAME} {state}", _format_apply(facts))
        return
    if not any(
        condition.type == "Established" and condition.status == "True"
        for condition in stored_definition.status.conditions or ()
    ):
        yield check_result.create_failure(
            f"{_CRD_NAME} is not established: the API server does not serve it",
            check_result.format_kubectl(facts.location, "describe", "crd", _CRD_NAME),
        )
    missing_fields = sorted(
        _find_missing_fields(_get_own_schema(create_crd()["spec"]["versions"][0]), _get_stored_schema(stored_version))
    )
    if missing_fields:
        yield check_result.create_failure(
            f"{_CRD_NAME} is of an older version, so each write loses the fields that it does not have: "
            f"{check_result.format_names(missing_fields)}",
            _format_apply(facts),
        )
    old_versions = [
        version for version in stored_definition.status.stored_versions or () if version != cap_ledger.VERSION
    ]
    if old_versions:
        yield check_result.create_warning(f"objects of {check_result.format_names(old_versions)} may still be stored")


def _format_apply(facts: GateFacts) -> str:
    return check_result.format_kubectl(
        facts.location, "apply", "--server-side", "--force-conflicts", f"--filename={_CRD_FILE}"
    )


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


@check_result.check(
    "leader",
    "One replica is the leader, which reconciles the ledgers",
    f"FAIL: the Lease was not renewed for {_MAX_LEASE_AGE_SECONDS:.0f} s, or several replicas have ledgers in "
    "memory; WARN: the Lease has no holder",
)
def check_leader(facts: GateFacts) -> check_result.CheckResult:
    if _has_cluster_ledgers(facts) is False:
        return _check_standalone(facts)
    lease = facts.lease
    if isinstance(lease, Unavailable):
        return check_result.create_unknown(f"the Lease {LEADER_LEASE} cannot be read: {lease.reason}")
    if lease is None:
        reason = f"there is no Lease {facts.location.namespace}/{LEADER_LEASE}"
        if _has_cluster_ledgers(facts) is None or not _has_running_replica(facts):
            return check_result.create_unknown(f"{reason}: the gate has its ledgers in memory, or does not run")
        return check_result.create_warning(
            f"{reason}: every replica reconciles ledgers, and work is repeated", *_list_lease_commands(facts)
        )
    return _check_lease_age(facts, lease)


def _check_standalone(facts: GateFacts) -> check_result.CheckResult:
    """Check that ledgers in memory have a single replica."""
    desired = facts.deployment.spec.replicas if isinstance(facts.deployment, GateDeployment) else 0
    observed = 0 if isinstance(facts.replicas, Unavailable) else len(facts.replicas)
    if max(desired, observed) < _MIN_REPLICAS:
        return check_result.create_pass(f"none is needed: {_IN_MEMORY}")
    reason = (
        f"{max(desired, observed)} replicas have ledgers in memory, each its own: each admits all that a cap allows"
    )
    fix_commands = (
        ()
        if facts.is_called_by_url
        else (check_result.format_namespaced_kubectl(facts.location, "scale", "deployment/tallygate", "--replicas=1"),)
    )
    return check_result.create_failure(reason, *fix_commands)


def _has_running_replica(facts: GateFacts) -> bool:
    """Return whether the readiness of any replica could be read."""
    replicas = () if isinstance(facts.replicas, Unavailable) else facts.replicas
    return any(not isinstance(replica.readiness, Unavailable) for replica in replicas)


def _check_lease_age(facts: GateFacts, lease: LeaderLease) -> check_result.CheckResult:
    renewed_at = parse_time(lease.spec.renew_time)
    if not lease.spec.holder_identity or renewed_at is None:
        reason = f"the Lease {LEADER_LEASE} has no holder, as for some seconds after a rollout: run this again"
        return check_result.create_warning(
            f"{reason}; without a leader, reservations of pods that never come do not expire",
            *_list_gate_log_commands(facts),
        )
    age_seconds = (facts.now + timedelta(seconds=facts.clock_offset or 0.0) - renewed_at).total_seconds()
    if age_seconds > _MAX_LEASE_AGE_SECONDS:
        reason = (
            f"{lease.spec.holder_identity} has not renewed the Lease {LEADER_LEASE} for {age_seconds:.0f} s, and "
            "no replica has acquired it"
        )
        return check_result.create_failure(
            f"{reason}: reservations of pods that never come do not expire", *_list_gate_log_commands(facts)
        )
    return check_result.create_pass(
        f"{lease.spec.holder_identity} is the leader, and renewed the Lease {max(age_seconds, 0):.0f} s ago"
    )


def parse_time(text: str | None) -> datetime | None:
    """Return a time in Kubernetes' format; None if it is invalid."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _list_lease_commands(facts: GateFacts) -> tuple[str, ...]:
    if facts.is_called_by_url:
        return ()
    return (
        check_result.format_namespaced_kubectl(
            facts.location, "auth", "can-i", "create", "leases", facts.location.impersonation
        ),
    )


def _list_gate_log_commands(facts: GateFacts) -> tuple[str, ...]:
    if facts.is_called_by_url:
        return ()
    return (
        check_result.format_namespaced_kubectl(
            facts.location, "logs", "--selector=app.kubernetes.io/component=gate", "--tail=50"
        ),
    )


@check_result.check(
    "ledgers",
    "Ledgers agree with the pods",
    "WARN: pods bypassed the gate, a cap is exceeded, initializing or new, ledgers could not be reconciled",
)
def check_ledgers(facts: GateFacts) -> check_result.CheckResult:
    if isinstance(facts.replicas, Unavailable):
        return check_result.create_unknown(facts.replicas.reason)
    readable = [
        (replica.name, replica.metrics) for replica in facts.replicas if not isinstance(replica.metrics, Unavailable)
    ]
    if not readable:
        return check_result.create_unknown("no replica's metrics can be read")
    results = [metric for name, metrics in readable for metric in _check_ledger_metrics(facts, name, metrics)]
    cap_count = max((metrics.get_value("policy_caps") or 0.0 for _, metrics in readable), default=0.0)
    return check_result.combine_results(
        results, check_result.create_pass(f"no drift was found since the start; active caps: {cap_count:.0f}")
    )


_WARNED_STATES = (
    ("initializing", "are counted first, and reserve nothing yet"),
    ("new", "of new caps are counted first, and enforce nothing yet"),
    ("exceeded", "use more than their limit"),
)


def _check_ledger_metrics(facts: GateFacts, name: str, metrics: ReplicaMetrics) -> Iterator[check_result.CheckResult]:
    drifted_caps = [
        f"{sample.labels.get('cap')} ({sample.value:.0f})"
        for sample in metrics.list_samples("ledger_drift_total")
        if sample.value
    ]
    if drifted_caps:
        reason = (
            f"{name} has found pods that bypassed the gate, by cap and number of recounts since its start: "
            f"{check_result.format_names(drifted_caps)}"
        )
        yield check_result.create_warning(
            reason, check_result.format_tallygate(facts.location, "usage", "--verify", "--policies", "policies/")
        )
    for state, meaning in _WARNED_STATES:
        caps = [
            f"{sample.labels.get('cap')} ({sample.value:.0f})"
            for sample in metrics.list_samples("cap_ledgers")
            if sample.labels.get("state") == state and sample.value
        ]
        if caps:
            yield check_result.create_warning(
                f"ledgers {meaning}: {check_result.format_names(caps)}",
                check_result.format_tallygate(facts.location, "usage", "--policies", "policies/"),
            )
    failures = sum(
        sample.value
        for sample in metrics.list_samples("ledger_reconcile_total")
        if sample.labels.get("result") == "failed"
    )
    if failures:
        yield check_result.create_warning(
            f"{name} could not reconcile ledgers {failures:.0f} times since its start", *_list_gate_log_commands(facts)
        )


_OVERLAY = "deploy/kustomize/mine"


@check_result.check(
    "permissions",
    "The gate's ServiceAccount has the permissions that it needs",
    "FAIL: one is missing; WARN: one is missing, and it is unknown whether the gate needs it",
)
def check_permissions(facts: GateFacts) -> check_result.CheckResult:
    if isinstance(facts.permissions, Unavailable):
        return check_result.create_unknown(
            f"what the gate's ServiceAccount may do could not be asked: {facts.permissions.reason}"
        )
    features = detect_features(facts)
    needed = [
        permission_result
        for permission_result in facts.permissions
        if features is None or permission_result.permission.feature in features
    ]
    account = f"{facts.location.namespace}/tallygate"
    if not needed:
        return check_result.create_pass(f"ServiceAccount {account} needs none: the gate watches no cluster")
    missing = [str(permission.permission) for permission in needed if not permission.allowed]
    if not missing:
        return check_result.create_pass(f"ServiceAccount {account} has all {len(needed)} permissions that it needs")
    create_result = check_result.create_warning if features is None else check_result.create_failure
    lacking = check_result.format_names(missing)
    reason = f"ServiceAccount {account} lacks {len(missing)} of {len(needed)} permissions: {lacking}"
    return create_result(
        reason, *_list_grants(facts, [permission.permission for permission in needed if not permission.allowed])
    )


def _list_grants(facts: GateFacts, missing: Sequence[Permission]) -> Iterator[str]:
    """Yield commands that grant permissions: those that deploy/ grants, and those on kinds that policies define."""
    location = facts.location
    files = dict.fromkeys(permission.feature.manifest_path for permission in missing if permission in PERMISSIONS)
    if files and location.namespace != DEFAULT_NAMESPACE:  # only the user's overlay has this namespace
        yield check_result.format_kubectl(location, "apply", "-k", _OVERLAY)
    else:
        yield from (check_result.format_kubectl(location, "apply", f"--filename={file}") for file in files)
    for permission in missing:
        if permission in PERMISSIONS:
            continue
        resource = f"{permission.resource}.{permission.group}"
        name = f"{CONFIGURATION_NAME}-{permission.verb}-{resource}"
        account = f"--serviceaccount={location.namespace}:{location.service_account}"
        role = (f"--verb={permission.verb}", f"--resource={resource}")
        yield check_result.format_kubectl(location, "create", "clusterrole", name, *role)
        yield check_result.format_kubectl(
            location, "create", "clusterrolebinding", name, f"--clusterrole={name}", account
        )


@check_result.check(
    "clocks",
    "Clocks agree",
    f"FAIL: more than {FAIL_OFFSET_SECONDS:.0f} s apart; WARN: more than {WARN_OFFSET_SECONDS:.0f} s",
)
def check_clocks(facts: GateFacts) -> check_result.CheckResult:
    if facts.clock_offset is None:
        return check_result.create_unknown("the API server answers without a Date")
    offsets = {"this machine's": -facts.clock_offset}
    if not isinstance(facts.replicas, Unavailable):
        offsets |= {
            f"{replica.name}'s": replica.clock_offset - facts.clock_offset
            for replica in facts.replicas
            if replica.clock_offset is not None
        }
    offsets |= _measure_leader_offset(facts, facts.clock_offset)
    results = [
        _create_result(owner, seconds) for owner, seconds in offsets.items() if abs(seconds) > WARN_OFFSET_SECONDS
    ]
    return check_result.combine_results(
        results,
        check_result.create_pass(
            f"within {WARN_OFFSET_SECONDS:.0f} s of the API server's: {check_result.format_names([*offsets])}"
        ),
    )


def _measure_leader_offset(facts: GateFacts, clock_offset: float) -> dict[str, float]:
    """Return the seconds by which the leader's clock is ahead.

    A Lease cannot show a clock that is behind, because the planned renewal time is unknown.
    """
    if not isinstance(facts.lease, LeaderLease) or (renewed_at := parse_time(facts.lease.spec.renew_time)) is None:
        return {}
    seconds = (renewed_at - facts.now).total_seconds() - clock_offset
    return {"the leader's": seconds} if seconds > WARN_OFFSET_SECONDS else {}


def _create_result(owner: str, seconds: float) -> check_result.CheckResult:
    direction = "ahead of" if seconds > 0 else "behind"
    create_result = check_result.create_failure if abs(seconds) > FAIL_OFFSET_SECONDS else check_result.create_warning
    return create_result(f"{owner} clock is {abs(seconds):.0f} s {direction} the API server's", "timedatectl status")
