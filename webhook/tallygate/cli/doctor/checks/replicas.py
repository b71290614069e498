"""Checks of the replicas: readiness, versions, active policies, age of the watches, and clocks.

The clocks are compared by the `Date` header of the API server and of each replica.
"""

from collections import defaultdict
from collections.abc import Iterator

from tallygate.cli.doctor.api_types import GateDeployment, LeaderLease
from tallygate.cli.doctor.check_result import (
    Check,
    CheckResult,
    combine_results,
    create_failure,
    create_pass,
    create_unknown,
    create_warning,
    format_names,
    format_namespaced_kubectl,
)
from tallygate.cli.doctor.checks.ledgers import parse_time
from tallygate.cli.doctor.facts import GateFacts, Replica, Unavailable

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


def _check_replicas(facts: GateFacts) -> CheckResult:
    if isinstance(facts.replicas, Unavailable):
        return create_unknown(facts.replicas.reason)
    if not facts.replicas:
        return create_failure(_NO_REPLICA, *_list_describe_commands(facts))
    results = [result for replica in facts.replicas for result in _check_readiness(facts, replica)]
    results += _check_replica_count(facts)
    results += _check_versions(facts.replicas, facts.version)
    count_text = _format_count(len(facts.replicas))
    return combine_results(
        results, create_pass(f"{count_text} ready: {format_names([replica.name for replica in facts.replicas])}")
    )


def _check_readiness(facts: GateFacts, replica: Replica) -> Iterator[CheckResult]:
    if isinstance(replica.readiness, Unavailable):
        yield create_unknown(f"/readyz of {replica.name} cannot be read: {replica.readiness.reason}")
        return
    failing_checks = [name for name, detail in replica.list_checks() if detail.get("ready") is not True]
    if failing_checks or replica.readiness.get("status") != "ready":
        yield create_failure(
            f"{replica.name} is not ready: {format_names(failing_checks) or 'it does not say why'}",
            *_list_log_commands(facts, replica),
        )
    for name, detail in replica.list_checks():
        failure = next((detail[key] for key in _FAILURE_KEYS if detail.get(key)), None)
        if failure:
            yield create_warning(
                f"{replica.name}, {name}: {str(failure)[:_MAX_MESSAGE_CHARACTERS]}", *_list_log_commands(facts, replica)
            )


def _check_replica_count(facts: GateFacts) -> Iterator[CheckResult]:
    deployment = facts.deployment
    if isinstance(deployment, GateDeployment) and deployment.status.ready_replicas < deployment.spec.replicas:
        count_text = f"{deployment.status.ready_replicas} of {deployment.spec.replicas} replicas are ready"
        yield create_warning(count_text, *_list_describe_commands(facts))


def _check_versions(replicas: tuple[Replica, ...], own_version: str) -> Iterator[CheckResult]:
    versions = sorted(
        {
            sample.labels.get("version", "")
            for replica in replicas
            if not isinstance(replica.metrics, Unavailable)
            for sample in replica.metrics.list_samples("build_info")
        }
    )
    if len(versions) > 1:
        yield create_warning(
            f"replicas of several versions run: {format_names(versions)}; while an upgrade is under way that is so"
        )
    elif versions and versions != [own_version]:
        yield create_warning(
            f"replicas are of version {format_names(versions)}, and what is asked of them here is that of {own_version}"
        )


def _check_policies(facts: GateFacts) -> CheckResult:
    if isinstance(facts.replicas, Unavailable):
        return create_unknown(facts.replicas.reason)
    if not facts.replicas:
        return create_unknown(_NO_REPLICA)
    results = [result for replica in facts.replicas for result in _check_active_policies(facts, replica)]
    results += _compare_digests(facts.replicas)
    return combine_results(
        results, create_pass(f"the policies as they are written are active in {_format_count(len(facts.replicas))}")
    )


def _compare_digests(replicas: tuple[Replica, ...]) -> Iterator[CheckResult]:
    digests = defaultdict[str, list[str]](list)
    for replica in replicas:
        if digest := (replica.find_check("policies") or {}).get("digest"):
            digests[str(digest)[:_DIGEST_LENGTH]].append(replica.name)
    if len(digests) > 1:
        digests_text = "; ".join(f"{digest} in {format_names(names)}" for digest, names in sorted(digests.items()))
        yield create_warning(f"replicas go by different policies, as for a minute after an edit: {digests_text}")


def _check_active_policies(facts: GateFacts, replica: Replica) -> Iterator[CheckResult]:
    detail, metrics = replica.find_check("policies"), replica.metrics
    if detail is None and isinstance(metrics, Unavailable):
        yield create_unknown(f"{replica.name} cannot be asked: {metrics.reason}")
        return
    broken = (detail or {}).get("broken") or (detail or {}).get("crash")
    is_broken = not isinstance(metrics, Unavailable) and metrics.get_value("policy_broken") == 1
    if broken or is_broken:
        first = broken[0] if isinstance(broken, list) and broken else broken or "its log says what"
        reason = (
            f"{replica.name} goes by an earlier set, for the files are broken: {str(first)[:_MAX_MESSAGE_CHARACTERS]}"
        )
        yield create_failure(reason, *_list_lint_commands(facts))
    rules, caps = (_get_policy_count(replica, name) for name in ("rules", "caps"))
    if rules == 0 and caps == 0:
        yield create_warning(
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
    configmap_command = format_namespaced_kubectl(
        facts.location, "get", "configmap", "tallygate-policies", "--output=yaml"
    )
    return ("tallygate lint policies/", configmap_command)


def _check_watches(facts: GateFacts) -> CheckResult:
    if isinstance(facts.replicas, Unavailable):
        return create_unknown(facts.replicas.reason)
    if not facts.replicas:
        return create_unknown(_NO_REPLICA)
    watching = [replica for replica in facts.replicas if replica.find_check("watches") is not None]
    if not watching and any(tuple(replica.list_checks()) for replica in facts.replicas):
        return create_pass(
            "the gate follows no cluster: caps are charged and never given back while it runs (docs/concepts/caps.md)"
        )
    results = [age for replica in facts.replicas for age in _check_watch_ages(facts, replica)]
    return combine_results(results, create_pass(f"what is seen by {_format_count(len(facts.replicas))} is current"))


def _check_watch_ages(facts: GateFacts, replica: Replica) -> Iterator[CheckResult]:
    detail = replica.find_check("watches")
    if isinstance(replica.metrics, Unavailable) and detail is None:
        yield create_unknown(f"{replica.name} cannot be asked: {replica.metrics.reason}")
        return
    ages = _get_watch_ages(replica)
    for name, status in (detail or {}).items():
        if isinstance(status, dict) and status.get("revision") is None:
            create_result = create_failure if name in {"pods", "namespaces"} else create_warning
            reason = str(status.get("stale") or status.get("crash") or "it has not come yet")[:_MAX_MESSAGE_CHARACTERS]
            yield create_result(f"{replica.name} has no list of {name}: {reason}", *_list_permission_commands(facts))
    for name, age in ages.items():
        if age > STALE_SECONDS:
            yield create_failure(
                f"what {replica.name} knows of {name} is {age:.0f} s old", *_list_log_commands(facts, replica)
            )


def _get_watch_ages(replica: Replica) -> dict[str, float]:
    if not isinstance(replica.metrics, Unavailable):
        return {
            sample.labels.get("resource", ""): sample.value
            for sample in replica.metrics.list_samples("watch_age_seconds")
        }
    statuses = (replica.find_check("watches") or {}).items()
    ages = {name: each.get("ageSeconds") for name, each in statuses if isinstance(each, dict)}
    return {name: float(age) for name, age in ages.items() if isinstance(age, int | float)}


def _list_permission_commands(facts: GateFacts) -> tuple[str, ...]:
    return (
        ()
        if facts.is_called_by_url
        else (format_namespaced_kubectl(facts.location, "auth", "can-i", "--list", facts.location.impersonation),)
    )


def _list_log_commands(facts: GateFacts, replica: Replica) -> tuple[str, ...]:
    return (
        ()
        if facts.is_called_by_url
        else (format_namespaced_kubectl(facts.location, "logs", replica.name, "--tail=50"),)
    )


def _list_describe_commands(facts: GateFacts) -> tuple[str, ...]:
    selector = "--selector=app.kubernetes.io/component=gate"
    return () if facts.is_called_by_url else (format_namespaced_kubectl(facts.location, "describe", "pods", selector),)


CHECKS = (
    Check(
        "replicas",
        "Every replica is ready",
        "FAIL: none runs, or one is not ready; WARN: fewer than wanted, other versions, a fault that one reports",
        _check_replicas,
    ),
    Check(
        "policies",
        "Every replica has the policies as they are written",
        "FAIL: the files are broken and an earlier set is active; WARN: different sets, or an empty one",
        _check_policies,
    ),
    Check(
        "watches",
        "What the gate has seen of the cluster is current",
        f"FAIL: a watch is older than {STALE_SECONDS:.0f} s, or pods or namespaces could not be listed",
        _check_watches,
    ),
)


def _check_clocks(facts: GateFacts) -> CheckResult:
    if facts.clock_offset is None:
        return create_unknown("the API server answers without a Date")
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
    return combine_results(
        results, create_pass(f"within {WARN_OFFSET_SECONDS:.0f} s of the API server's: {format_names([*offsets])}")
    )


def _measure_leader_offset(facts: GateFacts, clock_offset: float) -> dict[str, float]:
    """Return the seconds by which the leader's clock is ahead.

    A Lease cannot show a clock that is behind, because the planned renewal time is unknown.
    """
    if not isinstance(facts.lease, LeaderLease) or (renewed_at := parse_time(facts.lease.spec.renew_time)) is None:
        return {}
    seconds = (renewed_at - facts.now).total_seconds() - clock_offset
    return {"the leader's": seconds} if seconds > WARN_OFFSET_SECONDS else {}


def _create_result(owner: str, seconds: float) -> CheckResult:
    direction = "ahead of" if seconds > 0 else "behind"
    create_result = create_failure if abs(seconds) > FAIL_OFFSET_SECONDS else create_warning
    return create_result(f"{owner} clock is {abs(seconds):.0f} s {direction} the API server's", "timedatectl status")


CLOCK_CHECKS = (
    Check(
        "clocks",
        "Clocks agree",
        f"FAIL: more than {FAIL_OFFSET_SECONDS:.0f} s apart; WARN: more than {WARN_OFFSET_SECONDS:.0f} s",
        _check_clocks,
    ),
)
