"""Whether ledgers are kept, in a form that this version writes, and say what pods hold."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from webhook.cli.doctoring.asked_for import asked_for
from webhook.cli.doctoring.facts import Facts, Metrics, Unseen
from webhook.cli.doctoring.mending import kubectl, own, tallygate
from webhook.cli.doctoring.records import Definition, DefinitionVersion, Deployment, Lease
from webhook.cli.doctoring.rights import Feature
from webhook.cli.doctoring.verdict import Check, Said, failed, named, passed, together, unknown, warned
from webhook.gate.leader_election import LEADER_LEASE, LEASE_DURATION_SECONDS
from webhook.state.kubernetes import naming
from webhook.state.kubernetes.definition import definition

_IN_MEMORY = "ledgers are kept in the gate's memory"
_FILE = "deploy/kustomize/components/followed/crd.yaml"
_NAME = f"{naming.PLURAL}.{naming.GROUP}"
_TWO = 2
_UNRENEWED = 4 * LEASE_DURATION_SECONDS
"""Seconds: by then another replica would have taken the Lease over."""


def _are_in_cluster(facts: Facts) -> bool | None:
    features = asked_for(facts)
    return None if features is None else Feature.KEEPS in features


def _definition(facts: Facts) -> Said:
    found = facts.definition
    if isinstance(found, Unseen):
        return unknown(f"the CustomResourceDefinition {_NAME} cannot be read: {found.why}")
    if found is None:
        return _without(facts)
    said = list(_as_written(facts, found))
    return together(said, passed(f"{_NAME} serves and stores {naming.VERSION}, as this version writes it"))


def _without(facts: Facts) -> Said:
    why = f"there is no CustomResourceDefinition {_NAME}"
    match _are_in_cluster(facts):
        case True:
            return failed(
                f"{why}, and the gate is to keep its ledgers in the cluster: no cap lets anything in", _apply(facts)
            )
        case False:
            return passed(f"none is needed: {_IN_MEMORY}")
        case _:
            return unknown(f"{why}, and whether the gate needs one cannot be seen")


def _as_written(facts: Facts, found: Definition) -> Iterator[Said]:
    ours = next((each for each in found.spec.versions if each.name == naming.VERSION), None)
    if ours is None or not ours.served or not ours.storage:
        state = "is not there" if ours is None else "is not served" if not ours.served else "is not what is stored"
        yield failed(f"version {naming.VERSION} of {_NAME} {state}", _apply(facts))
        return
    if not any(each.type == "Established" and each.status == "True" for each in found.status.conditions or ()):
        yield failed(
            f"{_NAME} is not established: the API server does not serve it",
            kubectl(facts.here, "describe", "crd", _NAME),
        )
    lacking = sorted(_lacking(_schema(definition()["spec"]["versions"][0]), _schema_of(ours)))
    if lacking:
        yield failed(
            f"{_NAME} is of an older version: what it does not know is lost on each write: {named(lacking)}",
            _apply(facts),
        )
    old = [each for each in found.status.stored_versions or () if each != naming.VERSION]
    if old:
        yield warned(f"objects of {named(old)} may still be stored")


def _apply(facts: Facts) -> str:
    return kubectl(facts.here, "apply", "--server-side", "--force-conflicts", f"--filename={_FILE}")


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def _schema_of(version: DefinitionVersion) -> Mapping[str, Any]:
    found = version.schema.get("openAPIV3Schema")
    return found if isinstance(found, dict) else {}


def _lacking(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Fields that this version writes and the stored schema would prune."""
    there = theirs.get("properties") if isinstance(theirs, dict) else None
    there = there if isinstance(there, dict) else {}
    for name, schema in (ours.get("properties") or {}).items():
        where = f"{path}{name}"
        if name not in there:
            yield where
        else:
            yield from _lacking(schema, there[name], f"{where}.")


def _keeper(facts: Facts) -> Said:
    if _are_in_cluster(facts) is False:
        return _alone(facts)
    lease = facts.lease
    if isinstance(lease, Unseen):
        return unknown(f"the Lease {LEADER_LEASE} cannot be read: {lease.why}")
    if lease is None:
        why = f"there is no Lease {facts.here.namespace}/{LEADER_LEASE}"
        if _are_in_cluster(facts) is None or not _anybody(facts):
            return unknown(f"{why}: the gate keeps its ledgers in memory, or does not run")
        return warned(f"{why}: every replica keeps ledgers, and each thing is done more than once", *_can_lease(facts))
    return _held(facts, lease)


def _alone(facts: Facts) -> Said:
    """Who keeps ledgers in memory must be the only one."""
    wanted = facts.deployment.spec.replicas if isinstance(facts.deployment, Deployment) else 0
    seen = 0 if isinstance(facts.replicas, Unseen) else len(facts.replicas)
    if max(wanted, seen) < _TWO:
        return passed(f"none is needed: {_IN_MEMORY}")
    why = f"{max(wanted, seen)} replicas keep ledgers in memory, each its own: each lets in all that a cap allows"
    mend = () if facts.is_called_by_url else (own(facts.here, "scale", "deployment/tallygate", "--replicas=1"),)
    return failed(why, *mend)


def _anybody(facts: Facts) -> bool:
    """Whether a replica was seen to run."""
    replicas = () if isinstance(facts.replicas, Unseen) else facts.replicas
    return any(not isinstance(each.readiness, Unseen) for each in replicas)


def _held(facts: Facts, lease: Lease) -> Said:
    renewed = moment(lease.spec.renew_time)
    if not lease.spec.holder_identity or renewed is None:
        why = f"nobody holds the Lease {LEADER_LEASE}, as for some seconds after a rollout: ask again"
        return warned(f"{why}; if nobody takes it, promises that came to nothing keep their room", *_logs(facts))
    ago = (facts.now + timedelta(seconds=facts.ahead or 0.0) - renewed).total_seconds()
    if ago > _UNRENEWED:
        why = (
            f"{lease.spec.holder_identity} has not renewed the Lease {LEADER_LEASE} for {ago:.0f} s, and nobody "
            "has taken it"
        )
        return failed(f"{why}: promises that came to nothing keep their room", *_logs(facts))
    return passed(f"{lease.spec.holder_identity} keeps the ledgers, and said so {max(ago, 0):.0f} s ago")


def moment(text: str | None) -> datetime | None:
    """A time as Kubernetes writes it; None for what is none."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _can_lease(facts: Facts) -> tuple[str, ...]:
    if facts.is_called_by_url:
        return ()
    account = f"--as=system:serviceaccount:{facts.here.namespace}:tallygate"
    return (own(facts.here, "auth", "can-i", "create", "leases", account),)


def _logs(facts: Facts) -> tuple[str, ...]:
    if facts.is_called_by_url:
        return ()
    return (own(facts.here, "logs", "--selector=app.kubernetes.io/component=gate", "--tail=50"),)


def _ledgers(facts: Facts) -> Said:
    if isinstance(facts.replicas, Unseen):
        return unknown(facts.replicas.why)
    seen = [(each.name, each.metrics) for each in facts.replicas if not isinstance(each.metrics, Unseen)]
    if not seen:
        return unknown("no replica's metrics can be read")
    said = [each for name, metrics in seen for each in _told(facts, name, metrics)]
    kept = max((metrics.value("policy_caps") or 0.0 for _, metrics in seen), default=0.0)
    return together(said, passed(f"no drift was found since the start; caps in force: {kept:.0f}"))


def _told(facts: Facts, name: str, metrics: Metrics) -> Iterator[Said]:
    drifted = [
        f"{each.labels.get('cap')} ({each.value:.0f})" for each in metrics.of("ledger_drifts_total") if each.value
    ]
    if drifted:
        why = f"{name} has found pods that came past the gate, by cap and how often since its start: {named(drifted)}"
        yield warned(why, tallygate(facts.here, "usage", "--verify", "--policies", "policies/"))
    for state, meaning in (("converging", "promise nothing yet"), ("over", "hold more than they allow")):
        caps = [
            f"{each.labels.get('cap')} ({each.value:.0f})"
            for each in metrics.of("cap_ledgers")
            if each.labels.get("state") == state and each.value
        ]
        if caps:
            yield warned(f"ledgers {meaning}: {named(caps)}", tallygate(facts.here, "usage", "--policies", "policies/"))
    failures = sum(each.value for each in metrics.of("ledger_visits_total") if each.labels.get("result") == "failed")
    if failures:
        yield warned(f"{name} could not look at ledgers {failures:.0f} times since its start", *_logs(facts))


CHECKS = (
    Check(
        "ledger-definition",
        "CapLedgers can be stored as this version writes them",
        "FAIL: the definition is missing though ledgers are in the cluster, does not store v1alpha1, or lacks a field",
        _definition,
    ),
    Check(
        "keeper",
        "Somebody keeps the ledgers",
        f"FAIL: the Lease was not renewed for {_UNRENEWED:.0f} s, or several replicas keep ledgers in memory; "
        "WARN: nobody holds it",
        _keeper,
    ),
    Check(
        "ledgers",
        "Ledgers say what pods hold",
        "WARN: pods came past the gate, a cap is over or converging, ledgers could not be looked at",
        _ledgers,
    ),
)
