"""The mutants of surges (rule 12) and of limits that end (rule 8), where a gate decides whole reviews."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest.mock import patch

import msgspec
from msgspec.structs import replace

from tallygate.admission import cap_index
from tallygate.admission.cap_index import CapIndex
from tallygate.admission.kinds import ReviewTargets
from tallygate.gate import charge_transitions, rolling_pods
from tallygate.gate.rolling_pods import Charger, Revision, SurgeCharger
from tallygate.objects.meta import ObjectMeta, OwnerReference
from tallygate.policy.limit_annotations import LimitAnnotations, read_overrides
from tallygate.policy.model import LimitOverride, NamespaceCap
from tallygate.review.cap_charge import ChargeResult
from tallygate.review.owner_chain import Controller, OwnerChains, StoredController, find_controller
from tallygate.state.informers.named_stores import NamespaceStore
from tallygate.state.ledger import recount as counting
from tallygate.state.ledger import reserve as reserving
from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ledger.reserve import Deferred, Exceeded, ReservationRequest, Reserved, reserve
from tallygate.state.ledger.surges import SurgeTerms, begin_surge
from tests.gate.simulation.cluster_objects import UNIX_START
from tests.gate.simulation.runner import create_mutant
from tests.gate.simulation.surge_policies import SURGE_SECONDS
from tests.schedules import Mutant

_SEVERAL = "rollouts"
_LONG = "rollouts that take long"
_LIMITED = "rollouts, gangs and limits that end"
_Finder = rolling_pods._RevisionFinder  # noqa: SLF001  # its functions are replaced
_read_controller = OwnerChains.read_controller
_find_parent = OwnerChains._find_parent  # noqa: SLF001
_has_other_revision = _Finder.has_other_revision
_charge_again = SurgeCharger.charge_again

Outcome = Reserved | Exceeded | Deferred


def _renew_surge(before: Ledger, after: Ledger, terms: SurgeTerms) -> Ledger:
    begun = begin_surge(before, after, terms)
    return replace(begun, surge=replace(begun.surge, since=terms.now))


def _forget_begin(ledger: Ledger) -> Ledger:
    return replace(ledger, surge=replace(ledger.surge, since=None))


def _reserve_by_own_surge(ledger: Ledger, request: ReservationRequest) -> Outcome:
    amounts = ledger.surge.amounts
    own = (
        ledger if not request.surge.now else replace(ledger, surge=replace(ledger.surge, amounts=request.surge.amounts))
    )
    outcome = reserve(own, request)
    return replace(outcome, ledger=replace(outcome.ledger, surge=replace(outcome.ledger.surge, amounts=amounts)))


def _open_to(is_open: Callable[[ReservationRequest], bool]) -> Callable[[Ledger, ReservationRequest], Outcome]:
    """Return a transition in which the surge is open to other requests too."""

    def reserve_with_surge(ledger: Ledger, request: ReservationRequest) -> Outcome:
        if is_open(request):
            request = replace(request, surge=SurgeTerms(ledger.surge.amounts, SURGE_SECONDS, UNIX_START))
        return reserve(ledger, request)

    return reserve_with_surge


def _find_any_set(_: Any, metadata: ObjectMeta) -> Revision | None:
    reference = find_controller(metadata)
    return None if reference is None else Revision("", reference.uid or "")


def _find_by_name(_: Any, metadata: ObjectMeta) -> Revision | None:
    reference = find_controller(metadata)
    return None if reference is None else Revision((reference.name or "").rpartition("-")[0], reference.name or "")


def _find_by_labels(_: Any, metadata: ObjectMeta) -> Revision | None:
    labels = metadata.labels or {}
    return Revision(labels.get("app", ""), labels.get("pod-template-hash", ""))


def _has_any_pod(_: Any, _own: Revision, _metadata: ObjectMeta, others: Iterator[ObjectMeta]) -> bool:
    return any(True for _ in others)


def _read_by_name(
    chains: OwnerChains, namespace: str, reference: OwnerReference, targets: ReviewTargets
) -> StoredController | None:
    reader: Any = chains.reader
    content = reader.read_workload(("apps", "v1", "replicasets"), namespace, reference.name or "")
    if content is None:
        return None
    uid = msgspec.json.decode(content)["metadata"]["uid"]
    return _read_controller(chains, namespace, replace(reference, uid=uid), targets)


def _charge_in_earnest(charger: SurgeCharger, charges: Any, result: ChargeResult, targets: Any, charge: Charger) -> Any:
    earnest = replace(charges, consumer=replace(charges.consumer, is_dry_run=False))
    return _charge_again(charger, earnest, result, targets, charge)


def _remember_rejection(
    charger: SurgeCharger, charges: Any, result: ChargeResult, targets: Any, charge: Charger
) -> Any:
    rejected: set[str] = charger.__dict__.setdefault("_rejected", set())
    reference = find_controller(charges.created_pod.metadata) if charges.created_pod is not None else None
    if reference is not None and reference.uid in rejected:
        return result
    again = _charge_again(charger, charges, result, targets, charge)
    if again.exceeded and reference is not None:
        rejected.add(reference.uid or "")
    return again


def _remember_rollout(finder: Any, own: Revision, metadata: ObjectMeta, others: Iterator[ObjectMeta]) -> bool:
    rolling: set[Revision] = finder._owner_chains.__dict__.setdefault("_rolling", set())  # noqa: SLF001
    if own not in rolling and _has_other_revision(finder, own, metadata, others):
        rolling.add(own)
    return own in rolling


def _charge_by_uptime(charger: Any, *arguments: Any) -> ChargeResult:
    charger._unix_time = charger._owner_chains._monotonic  # noqa: SLF001  # the clock that gives ages
    return _charge_again(charger, *arguments)


def _identify_by_uid(metadata: ObjectMeta) -> tuple[str | None, ...]:
    reference, labels = find_controller(metadata), metadata.labels or {}
    return reference.uid if reference else None, labels.get("controller-revision-hash")


def _find_by_uid(chains: Any, namespace: str, controller: Controller) -> StoredController | None:
    found = (each for (_, known), each in chains._cached.items() if known.uid == controller.uid)  # noqa: SLF001
    return next(found, None) or _find_parent(chains, namespace, controller)


def _read_without_end(cap: NamespaceCap, annotations: LimitAnnotations) -> dict[str, LimitOverride]:
    return {
        name: LimitOverride(hard=each.hard, groups=each.groups, namespaces=each.namespaces)
        for name, each in read_overrides(cap, annotations).items()
    }


def _read_from_any_namespace(cap: NamespaceCap, annotations: LimitAnnotations) -> dict[str, LimitOverride]:
    overrides = read_overrides(cap, annotations)
    return {name: each for each in overrides.values() for name in ("team-a", "team-b")}


def _keep_texts(store: NamespaceStore, names: frozenset[str]) -> None:
    texts = {name: store._records[name].limit_texts for name in names if name in store._records}  # noqa: SLF001
    kept = {name: each for name, each in texts.items() if each}
    if kept:
        store._limit_annotations = {**store._limit_annotations, **kept}  # noqa: SLF001


def _create(description: str, replacement: Any, mix: str = _SEVERAL, seed: int = 0, rule: int = 12) -> Mutant:
    return create_mutant(rule, description, replacement, mix, seed)


SURGE_MUTANTS: Mapping[str, Mutant] = {
    "surges_for_ever": _create(
        "ends no surge",
        patch.object(reserving, "is_surge_over", lambda _ledger, _terms: False),
        _LONG,
        seed=5,
    ),
    "renews_the_surge": _create(
        "begins a surge again with each pod that surges",
        patch.object(reserving, "begin_surge", _renew_surge),
        _LONG,
        seed=5,
    ),
    "forgets_the_begin": _create(
        "removes the time of a surge at each recount",
        patch.object(counting, "end_surge", _forget_begin),
        _LONG,
        seed=5,
    ),
    "keeps_the_begin": _create(
        "keeps the time of a surge when the charge is back at the limit",
        patch.object(counting, "end_surge", lambda ledger: ledger),
    ),
    "ignores_the_smaller": _create(
        "uses its own surge if that of the ledger is smaller",
        patch.object(charge_transitions, "reserve", _reserve_by_own_surge),
        seed=5,
    ),
    "opens_to_any_set": _create(
        "takes two controllers of whichever workloads for a rollout",
        patch.object(_Finder, "find_revision", _find_any_set),
    ),
    "opens_to_any_revision": _create(
        "takes any other pod for one of another revision",
        patch.object(_Finder, "has_other_revision", _has_any_pod),
    ),
    "reads_by_name": _create(
        "reads the controller of a pod by its name, whatever its UID",
        patch.object(OwnerChains, "read_controller", _read_by_name),
    ),
    "guesses_by_name": _create(
        "takes controllers with names that differ in their last part for those of one workload",
        patch.object(_Finder, "find_revision", _find_by_name),
    ),
    "believes_labels": _create(
        "finds workload and revision of a pod in its labels",
        patch.object(_Finder, "find_revision", _find_by_labels),
    ),
    "surges_for_workloads": _create(
        "guards the reservation of a workload by the surge",
        patch.object(charge_transitions, "reserve", _open_to(lambda request: bool(request.workload.kind))),
        _LIMITED,
        seed=11,
    ),
    "surges_for_changes": _create(
        "guards the change of a pod by the surge",
        patch.object(charge_transitions, "reserve", _open_to(lambda request: request.operation is Operation.UPDATE)),
        seed=1,
    ),
    "surges_in_dry_runs": _create(
        "makes the second attempt of a dry run in earnest",
        patch.object(SurgeCharger, "charge_again", _charge_in_earnest),
        seed=29,
    ),
    "surges_by_uptime": _create(
        "measures the time of a surge by the clock of its process",
        patch.object(SurgeCharger, "charge_again", _charge_by_uptime),
        _LONG,
        seed=5,
    ),
    "caches_by_uid": _create(
        "finds a controller that it has read by the UID alone",
        patch.object(OwnerChains, "_find_parent", _find_by_uid),
    ),
    "confuses_by_uid": _create(
        "takes pods that state one UID for those of one controller, whatever its kind and name",
        patch.object(rolling_pods, "_identify", _identify_by_uid),
        seed=1,
    ),
    "remembers_rollouts": _create(
        "takes a controller that has rolled for one that rolls",
        patch.object(_Finder, "has_other_revision", _remember_rollout),
        seed=23,
    ),
    "remembers_rejections": _create(
        "rejects every later pod of a controller once one of its pods was rejected with its surge",
        patch.object(SurgeCharger, "charge_again", _remember_rejection),
        seed=2,
    ),
    "ignores_the_end": _create(
        "applies the limit of an annotation after its end",
        patch.object(cap_index, "read_overrides", _read_without_end),
        _LIMITED,
        seed=2,
        rule=8,
    ),
    "reads_another_namespace": _create(
        "applies the annotation of one namespace to another",
        patch.object(cap_index, "read_overrides", _read_from_any_namespace),
        _LIMITED,
        rule=8,
    ),
    "keeps_annotations": _create(
        "applies the annotation of a namespace after its removal",
        patch.object(NamespaceStore, "_update_limit_annotations", _keep_texts),
        _LIMITED,
        rule=8,
    ),
    "ends_at_changes": _create(
        "ends a raise of a limit only when policies or annotations change",
        patch.object(CapIndex, "is_current", lambda _index, _now: True),
        _LIMITED,
        rule=8,
    ),
}
