"""Whether the replicas are well, and go by the same policies and by what is so now."""

from collections import defaultdict
from collections.abc import Iterator

from webhook.cli.doctoring.facts import Facts, Replica, Unseen
from webhook.cli.doctoring.mending import own
from webhook.cli.doctoring.records import Deployment
from webhook.cli.doctoring.verdict import Check, Said, failed, named, passed, together, unknown, warned

STALE = 120.0
"""Seconds after which what a watch has told is stale (docs/metrics.md)."""
_LONGEST = 200
_NONE = "no replica runs"
_DIGEST = 12
_TROUBLES = ("failure", "error", "complaint")


def _counted(count: int) -> str:
    return f"{count} replica{'s' * (count != 1)}"


def _well(facts: Facts) -> Said:
    if isinstance(facts.replicas, Unseen):
        return unknown(facts.replicas.why)
    if not facts.replicas:
        return failed(_NONE, *_describe(facts))
    said = [each for replica in facts.replicas for each in _ready(facts, replica)]
    said += _missing(facts)
    said += _versions(facts.replicas, facts.version)
    told = _counted(len(facts.replicas))
    return together(said, passed(f"{told} ready: {named([each.name for each in facts.replicas])}"))


def _ready(facts: Facts, replica: Replica) -> Iterator[Said]:
    if isinstance(replica.readiness, Unseen):
        yield unknown(f"/readyz of {replica.name} cannot be read: {replica.readiness.why}")
        return
    wrong = [name for name, detail in replica.checks() if detail.get("ready") is not True]
    if wrong or replica.readiness.get("status") != "ready":
        yield failed(f"{replica.name} is not ready: {named(wrong) or 'it does not say why'}", *_logs(facts, replica))
    for name, detail in replica.checks():
        trouble = next((detail[key] for key in _TROUBLES if detail.get(key)), None)
        if trouble:
            yield warned(f"{replica.name}, {name}: {str(trouble)[:_LONGEST]}", *_logs(facts, replica))


def _missing(facts: Facts) -> Iterator[Said]:
    deployment = facts.deployment
    if isinstance(deployment, Deployment) and deployment.status.ready_replicas < deployment.spec.replicas:
        told = f"{deployment.status.ready_replicas} of {deployment.spec.replicas} replicas are ready"
        yield warned(told, *_describe(facts))


def _versions(replicas: tuple[Replica, ...], ours: str) -> Iterator[Said]:
    found = sorted(
        {
            sample.labels.get("version", "")
            for replica in replicas
            if not isinstance(replica.metrics, Unseen)
            for sample in replica.metrics.of("build_info")
        }
    )
    if len(found) > 1:
        yield warned(f"replicas of several versions run: {named(found)}; while an upgrade is under way that is so")
    elif found and found != [ours]:
        yield warned(f"replicas are of version {named(found)}, and what is asked of them here is that of {ours}")


def _policies(facts: Facts) -> Said:
    if isinstance(facts.replicas, Unseen):
        return unknown(facts.replicas.why)
    if not facts.replicas:
        return unknown(_NONE)
    said = [each for replica in facts.replicas for each in _in_force(facts, replica)]
    said += _apart(facts.replicas)
    return together(said, passed(f"the policies as they are written are in force in {_counted(len(facts.replicas))}"))


def _apart(replicas: tuple[Replica, ...]) -> Iterator[Said]:
    digests = defaultdict[str, list[str]](list)
    for replica in replicas:
        if digest := (replica.check("policies") or {}).get("digest"):
            digests[str(digest)[:_DIGEST]].append(replica.name)
    if len(digests) > 1:
        several = "; ".join(f"{digest} in {named(names)}" for digest, names in sorted(digests.items()))
        yield warned(f"replicas go by different policies, as for a minute after an edit: {several}")


def _in_force(facts: Facts, replica: Replica) -> Iterator[Said]:
    detail, metrics = replica.check("policies"), replica.metrics
    if detail is None and isinstance(metrics, Unseen):
        yield unknown(f"{replica.name} cannot be asked: {metrics.why}")
        return
    broken = (detail or {}).get("broken") or (detail or {}).get("crash")
    is_broken = not isinstance(metrics, Unseen) and metrics.value("policy_broken") == 1
    if broken or is_broken:
        first = broken[0] if isinstance(broken, list) and broken else broken or "its log says what"
        told = f"{replica.name} goes by an earlier set, for the files are broken: {str(first)[:_LONGEST]}"
        yield failed(told, *_lint(facts))
    rules, caps = (_number(replica, name) for name in ("rules", "caps"))
    if rules == 0 and caps == 0:
        yield warned(f"{replica.name} has neither a rule nor a cap in force: nothing is refused", *_lint(facts))


def _number(replica: Replica, name: str) -> float | None:
    if not isinstance(replica.metrics, Unseen):
        return replica.metrics.value(f"policy_{name}")
    found = (replica.check("policies") or {}).get(name)
    return float(found) if isinstance(found, int) else None


def _lint(facts: Facts) -> tuple[str, ...]:
    if facts.is_called_by_url:
        return ("tallygate lint policies/",)
    written = own(facts.here, "get", "configmap", "tallygate-policies", "--output=yaml")
    return ("tallygate lint policies/", written)


def _watches(facts: Facts) -> Said:
    if isinstance(facts.replicas, Unseen):
        return unknown(facts.replicas.why)
    if not facts.replicas:
        return unknown(_NONE)
    following = [each for each in facts.replicas if each.check("cluster") is not None]
    if not following and any(tuple(each.checks()) for each in facts.replicas):
        return passed("the gate follows no cluster: caps are charged and never given back while it runs (docs/caps.md)")
    said = [each for replica in facts.replicas for each in _current(facts, replica)]
    return together(said, passed(f"what is seen by {_counted(len(facts.replicas))} is current"))


def _current(facts: Facts, replica: Replica) -> Iterator[Said]:
    detail = replica.check("cluster")
    if isinstance(replica.metrics, Unseen) and detail is None:
        yield unknown(f"{replica.name} cannot be asked: {replica.metrics.why}")
        return
    ages = _ages(replica)
    for name, told in (detail or {}).items():
        if isinstance(told, dict) and told.get("revision") is None:
            said = failed if name in {"pods", "namespaces"} else warned
            why = str(told.get("stale") or told.get("crash") or "it has not come yet")[:_LONGEST]
            yield said(f"{replica.name} has no list of {name}: {why}", *_rights(facts))
    for name, age in ages.items():
        if age > STALE:
            yield failed(f"what {replica.name} knows of {name} is {age:.0f} s old", *_logs(facts, replica))


def _ages(replica: Replica) -> dict[str, float]:
    if not isinstance(replica.metrics, Unseen):
        return {each.labels.get("resource", ""): each.value for each in replica.metrics.of("watch_age_seconds")}
    told = (replica.check("cluster") or {}).items()
    found = {name: each.get("ageSeconds") for name, each in told if isinstance(each, dict)}
    return {name: float(age) for name, age in found.items() if isinstance(age, int | float)}


def _rights(facts: Facts) -> tuple[str, ...]:
    account = f"--as=system:serviceaccount:{facts.here.namespace}:tallygate"
    return () if facts.is_called_by_url else (own(facts.here, "auth", "can-i", "--list", account),)


def _logs(facts: Facts, replica: Replica) -> tuple[str, ...]:
    return () if facts.is_called_by_url else (own(facts.here, "logs", replica.name, "--tail=50"),)


def _describe(facts: Facts) -> tuple[str, ...]:
    selector = "--selector=app.kubernetes.io/component=gate"
    return () if facts.is_called_by_url else (own(facts.here, "describe", "pods", selector),)


CHECKS = (
    Check(
        "replicas",
        "Every replica is ready",
        "FAIL: none runs, or one is not ready; WARN: fewer than wanted, other versions, a trouble that one tells of",
        _well,
    ),
    Check(
        "policies",
        "Every replica goes by the policies as they are written",
        "FAIL: the files are broken and an earlier set is in force; WARN: different sets, or nothing in force",
        _policies,
    ),
    Check(
        "watches",
        "What the gate has seen of the cluster is current",
        f"FAIL: a watch is older than {STALE:.0f} s, or pods or namespaces could not be listed",
        _watches,
    ),
)
