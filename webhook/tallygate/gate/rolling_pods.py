"""Pods of a controller that rolls: under a cap with `surge` they may exceed the hard limit for a time (rule 12).

A controller rolls as long as the cap counts pods of another revision of it. Only what is rejected without a surge is
examined: a decision within the hard limit reads no controller.

A tenant who may create ReplicaSets can always make such pods. What limits their use are the amount of a surge, and its
time.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.kinds import ReviewTargets
from tallygate.cluster.usage_lister import UsageLister
from tallygate.objects.meta import ObjectMeta, OwnerReference
from tallygate.review.cap_charge import CapCharge, ChargedConsumer, ChargeResult
from tallygate.review.charged_requests import RequestCharges
from tallygate.review.owner_chain import OwnerChains, find_controller
from tallygate.state.informers.consumer_store import NotSyncedError
from tallygate.state.informers.pod_records import ChargeGroup

_DAEMON_REVISION = "controller-revision-hash"
_SET_REVISION = "leaderworkerset.sigs.k8s.io/template-revision-hash"
_SET_GROUP = "leaderworkerset.x-k8s.io"
_MAX_READ_CONTROLLERS = 16
_NO_METADATA = ObjectMeta()

Charger = Callable[[ChargedConsumer, Sequence[CapCharge]], ChargeResult]
"""Charges a consumer under all its caps, in one attempt."""


class Revision(NamedTuple):
    """The UID of the workload that a pod belongs to, and the revision of its template that the pod is made of."""

    workload: str
    name: str


class SurgeCharger:
    """The charges of requests, again with a surge where a pod that is rejected belongs to a controller that rolls.

    Without `owner_chains` or a `usage_lister`, nothing shows that a controller rolls. `nonce` returns the nonce of an
    attempt, and `unix_time` the time in seconds of the Unix epoch.
    """

    def __init__(
        self,
        owner_chains: OwnerChains | None,
        usage_lister: UsageLister | None,
        nonce: Callable[[], str],
        unix_time: Callable[[], float],
    ) -> None:
        self._owner_chains = owner_chains
        self._usage_lister = usage_lister
        self._nonce = nonce
        self._unix_time = unix_time
        self._metadata: WeakKeyDictionary[ChargeGroup, ObjectMeta] = WeakKeyDictionary()

    def charge_again(
        self, request_charges: RequestCharges, result: ChargeResult, targets: ReviewTargets, charge: Charger
    ) -> ChargeResult:
        """Charge a rejected pod again, with a surge, if a surge may accept it; else return the result that rejects it.

        Raises:
            UnreadableOwnerError: if a controller cannot be read.
        """
        consumer, charges, pod = request_charges.consumer, request_charges.charges, request_charges.created_pod
        if pod is None or self._owner_chains is None or self._usage_lister is None:
            return result
        if any(exceeded_cap.excess.keys() - exceeded_cap.charge.cap.surge.keys() for exceeded_cap in result.exceeded):
            return result
        finder = _RevisionFinder(self._owner_chains, consumer.namespace, targets)
        metadata = pod.metadata or _NO_METADATA
        own = finder.find_revision(metadata)
        if own is None:
            return result
        for exceeded_cap in result.exceeded:
            others = self._list_metadata(
                self._usage_lister, exceeded_cap.charge.cap, consumer.namespace, exceeded_cap.excess.keys()
            )
            if not finder.has_other_revision(own, metadata, others):
                return result
        now, keys = int(self._unix_time()), {exceeded_cap.charge.cap.key for exceeded_cap in result.exceeded}
        surging = [
            replace(one_charge, rolls_at=now) if one_charge.cap.key in keys else one_charge for one_charge in charges
        ]
        return charge(replace(consumer, attempt=self._nonce()), surging)

    def _list_metadata(
        self, usage_lister: UsageLister, cap: ActiveCap, namespace: str, names: Collection[str]
    ) -> Iterator[ObjectMeta]:
        """Yield labels and controllers of the pods in a namespace that use each of these names under a cap."""
        try:
            for usage in usage_lister.list_groups_in(cap, namespace):
                if all(usage.used_per_pod.get(name) for name in names):
                    yield self._find_metadata(usage.group)
        except NotSyncedError:
            return

    def _find_metadata(self, group: ChargeGroup) -> ObjectMeta:
        metadata = self._metadata.get(group)
        if metadata is None:
            metadata = self._metadata[group] = group.to_pod().metadata or _NO_METADATA
        return metadata


class _RevisionFinder:
    """A finder of the revisions of pods in one namespace."""

    def __init__(self, owner_chains: OwnerChains, namespace: str, targets: ReviewTargets) -> None:
        self._owner_chains = owner_chains
        self._namespace = namespace
        self._targets = targets

    def find_revision(self, metadata: ObjectMeta) -> Revision | None:
        """Return the workload and revision of a pod; None if nothing that creates new pods before old ones end made it.

        A Deployment or Rollout has a ReplicaSet for each revision. The pods of a DaemonSet and those of a
        LeaderWorkerSet have their revision in a label. A StatefulSet deletes a pod before it creates another.

        Raises:
            UnreadableOwnerError: if a controller cannot be read.
        """
        reference, labels = find_controller(metadata), metadata.labels or {}
        if reference is None:
            return None
        group, kind = (reference.api_version or "").rpartition("/")[0], reference.kind
        if (group, kind) == ("apps", "ReplicaSet"):
            stored = self._owner_chains.read_controller(self._namespace, reference, self._targets)
            parent = stored.parent if stored is not None else None
            return Revision(parent.uid or "", reference.uid or "") if parent is not None else None
        if (group, kind) == ("apps", "DaemonSet") and (revision := labels.get(_DAEMON_REVISION)):
            stored = self._owner_chains.read_controller(self._namespace, reference, self._targets)
            return Revision(reference.uid or "", revision) if stored is not None else None
        if revision := labels.get(_SET_REVISION):
            controllers = self._owner_chains.list_controllers(self._namespace, metadata, self._targets)
            sets = [
                controller.uid
                for controller in controllers
                if (controller.group, controller.kind) == (_SET_GROUP, "LeaderWorkerSet")
            ]
            return Revision(sets[-1], revision) if sets else None
        return None

    def has_other_revision(self, own: Revision, metadata: ObjectMeta, others: Iterator[ObjectMeta]) -> bool:
        """Return whether one of the other pods belongs to another revision of the same workload.

        Pods whose controller has a similar name come first, since only a few controllers are read.

        Raises:
            UnreadableOwnerError: if a controller cannot be read.
        """
        name = _get_controller_name(metadata)
        by_controller = {_identify(other): other for other in others}
        by_controller.pop(_identify(metadata), None)
        similar_first = sorted(by_controller.values(), key=lambda each: _get_controller_name(each) != name)
        revisions = (self.find_revision(controller) for controller in similar_first[:_MAX_READ_CONTROLLERS])
        return any(
            revision is not None and revision.workload == own.workload and revision != own for revision in revisions
        )


def _identify(metadata: ObjectMeta) -> tuple[OwnerReference | None, str | None, str | None]:
    """Return what the pods of one revision have in common.

    It is the whole reference: a pod may state the UID of a controller of another kind or name, and is not its own.
    """
    labels = metadata.labels or {}
    return find_controller(metadata), labels.get(_DAEMON_REVISION), labels.get(_SET_REVISION)


def _get_controller_name(metadata: ObjectMeta) -> str:
    """Return the name of a controller without the part that differs between the revisions of a Deployment."""
    reference = find_controller(metadata)
    return (reference.name or "").rpartition("-")[0] if reference is not None else ""
