"""PodGroups of Kubernetes under caps with `admit: whole`: the first pod of a group reserves for all of its pods.

A PodGroup has the least number of pods that start together (`minCount`), and no template: what its pods request is
known when the first one is created (rule 11 of docs/design/caps.md). That pod stands for all; neither the API server
nor kube-scheduler requires that they are equal. The claims that the pods share are made for the group, each once.

A pod of a workload that starts together, such as a Job, belongs to that: the workload reserved at its own creation.

Sources: scheduling/v1beta1/types.go in k8s.io/api, BindTo in k8s.io/dynamic-resource-allocation/resourceclaim,
syncPodGroup in pkg/controller/resourceclaim/controller.go, v1.37.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.kinds import DecodedRequest, ReviewTargets
from tallygate.errors import TallygateError
from tallygate.objects.core import Pod, PodResourceClaim
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import PodGroup, PodGroupSchedulingPolicy, PodGroupSpec, PodGroupStatus
from tallygate.review import charged_requests
from tallygate.review.applied_workload import multiply
from tallygate.review.cap_charge import NO_NEED, GangNeed
from tallygate.review.claim_forecast import ClaimTemplateLister, PodClaims, counts_devices
from tallygate.review.owner_chain import POD_GROUP_KIND, POD_GROUPS, Controller, OwnerChains, UnreadableOwnerError
from tallygate.review.scale_requests import WorkloadReader
from tallygate.review.view import ClusterView
from tallygate.state.ledger.gangs import NO_GANG, GangTerms
from tallygate.state.ledger.ledger import Operation
from tallygate.state.ledger.reserve import WorkloadTerms

_VERSION: Final = "v1beta1"
_API_VERSION: Final = f"{POD_GROUP_KIND[0]}/{_VERSION}"
_KIND: Final = f"{_API_VERSION}/{POD_GROUP_KIND[1]}"
_RESOURCE: Final = (POD_GROUP_KIND[0], _VERSION, POD_GROUPS)
_DECODER: Final = msgspec.json.Decoder(PodGroup)


class Gang(msgspec.Struct, frozen=True):
    """A stored PodGroup whose pods start together: its UID, its name and its `minCount`.

    `claims` are all those that its pods may share, `made` the names of those that are made from templates and exist.
    """

    uid: str
    name: str
    min_count: int
    claims: tuple[PodResourceClaim, ...] = ()
    made: frozenset[str] = frozenset()


def read_gang(reader: WorkloadReader, namespace: str, name: str) -> Gang | None:
    """Return the PodGroup of this name, read from the quorum.

    Return None if it does not exist, is being deleted, or lets its pods start one by one.

    Raises:
        UnreadableOwnerError: if it cannot be read.
    """
    try:
        content = reader.read_workload(_RESOURCE, namespace, name)
        group = _DECODER.decode(content) if content is not None else PodGroup()
    except (TallygateError, ValueError, RecursionError) as error:
        controller = Controller(POD_GROUP_KIND[0], _VERSION, POD_GROUP_KIND[1], name, "")
        raise UnreadableOwnerError(controller, namespace, error) from error
    meta, spec, status = group.metadata or ObjectMeta(), group.spec or PodGroupSpec(), group.status or PodGroupStatus()
    policy = (spec.scheduling_policy or PodGroupSchedulingPolicy()).gang
    if not meta.uid or meta.deletion_timestamp is not None or policy is None or policy.min_count < 1:
        return None
    claims = (
        PodResourceClaim(claim.name, claim.resource_claim_name, claim.resource_claim_template_name)
        for claim in spec.resource_claims or ()
    )
    made = frozenset(claim.name for claim in status.resource_claim_statuses or ())
    return Gang(meta.uid, name, policy.min_count, tuple(claims), made)


def add_owners(
    request_charges: charged_requests.RequestCharges, decoded_request: DecodedRequest, view: ClusterView
) -> charged_requests.RequestCharges:
    """Return the charges of a new pod or claim with the workloads from whose reservations it may take over amounts.

    These are its controllers, or else its PodGroup; the first pod of that has the charges of all. The claim that
    kube-scheduler makes for a pod belongs to the amounts of the pod.

    Raises:
        UnreadableOwnerError: if a controller or the PodGroup cannot be read.
        UndecidedChargeError: if a class or template of the claims of a PodGroup is not seen.
    """
    consumer, target, chains = request_charges.consumer, decoded_request.target, view.owner_chains
    if chains is None or consumer.operation is not Operation.CREATE or consumer.pod_uid or target is None:
        return request_charges
    pod = request_charges.created_pod
    has_claims = pod is not None and bool(pod.group_name and pod.spec and pod.spec.resource_claims)
    charges = request_charges.charges
    whole = [charge for charge in charges if charge.cap.definition.admits_whole and charge.cap.hard]
    if not any(charge.requested or has_claims for charge in whole):
        return request_charges
    namespace, targets = consumer.namespace, decoded_request.targets
    controllers = chains.list_controllers(namespace, decoded_request.get_object(target).metadata, targets)
    gang = None
    if not _start_together(controllers, targets):
        gang = _find_gang(chains, namespace, pod, controllers)
    owner_uids = [controller.uid for controller in controllers] + ([gang.uid] if gang is not None else [])
    if not owner_uids:
        return request_charges
    if gang is not None and pod is not None:
        request_charges = _add_need(request_charges, gang, pod, view)
    reserves = any(charge.compute_gang is not None for charge in request_charges.charges)
    terms = GangTerms(gang.uid, gang.name, _KIND) if gang is not None and reserves else NO_GANG
    return replace(request_charges, consumer=replace(consumer, workload=WorkloadTerms("", tuple(owner_uids), terms)))


def _start_together(controllers: Sequence[Controller], targets: ReviewTargets) -> bool:
    """Return whether one of the controllers reserves for its pods, or has reserved for them."""
    found = (targets.get((controller.group, controller.kind)) for controller in controllers)
    return any(target is not None and target.starts_together for target in found)


def _find_gang(chains: OwnerChains, namespace: str, pod: Pod | None, controllers: Sequence[Controller]) -> Gang | None:
    """Return the PodGroup of a new pod, or that of the pod for which a claim is made."""
    name = pod.group_name if pod is not None else chains.find_group_name(namespace, controllers)
    return read_gang(chains.reader, namespace, name) if name else None


def _add_need(
    request_charges: charged_requests.RequestCharges, gang: Gang, pod: Pod, view: ClusterView
) -> charged_requests.RequestCharges:
    """Return the charges of a pod with the need of its PodGroup under the caps that count something of it.

    Raises:
        UndecidedChargeError: if a class or template of its claims is not seen.
    """
    namespace = request_charges.consumer.namespace
    claims = _ClaimFinder(namespace, gang, view.claim_templates)
    lister = view.usage_lister
    list_members = partial(lister.list_pods_of_group, namespace, gang.name) if lister is not None else _list_none
    charges = []
    for charge in request_charges.charges:
        cap = charge.cap
        if cap.definition.admits_whole and cap.hard:
            _require_seen(cap, claims, pod)
            need = _Need(gang, pod, claims, list_members)
            if need.compute_each(cap, pod) or claims.shared.compute_charge(cap):
                charge = replace(charge, compute_gang=need)  # noqa: PLW2901  # the same charge, with more
        charges.append(charge)
    return replace(request_charges, charges=charges)


def _list_none() -> list[tuple[Pod, int]]:
    return []


def _require_seen(cap: ActiveCap, claims: "_ClaimFinder", pod: Pod) -> None:
    """Check that the templates and classes of the claims of a PodGroup are seen, if the cap counts claims.

    Raises:
        UndecidedChargeError: if one is not: without its amounts the group would be admitted in part.
    """
    if not counts_devices((cap,), None):
        return
    for found in (claims.find_own(pod), claims.shared):
        if found.unseen_template:
            cause = charged_requests.UnseenTemplate(found.unseen_template)
            raise charged_requests.UndecidedChargeError(cap.definition.name, cause)
        for claim in found.claims:
            charged_requests.require_seen_class(cap, cap.find_unseen_class_of_claim(claim))


class _ClaimFinder(msgspec.Struct):
    """The claims for the pods of a PodGroup: those that it shares and that are not made yet, and those of a pod."""

    namespace: str
    gang: Gang
    templates: ClaimTemplateLister | None

    @property
    def shared(self) -> PodClaims:
        """The claims that are still made from templates for the group."""
        return self._find(claim for claim in self.gang.claims if (claim.name or "") not in self.gang.made)

    def find_own(self, pod: Pod) -> PodClaims:
        """Return the claims that templates make for one pod of the group alone."""
        claims = (pod.spec.resource_claims if pod.spec else None) or ()
        return self._find(claim for claim in claims if claim not in self.gang.claims)

    def _find(self, claims: Iterable[PodResourceClaim]) -> PodClaims:
        names = [name for claim in claims if (name := claim.resource_claim_template_name)]
        found = []
        for name in names if self.templates is not None else ():
            claim = self.templates.find_claim(self.namespace, name) if self.templates is not None else None
            if claim is None:
                return PodClaims(unseen_template=name)
            found.append(claim)
        return PodClaims(tuple(found))


class _Need(msgspec.Struct):
    """The amounts of a whole PodGroup under a cap, if its first pod is created, by the pods that are stored then."""

    gang: Gang
    pod: Pod
    claims: _ClaimFinder
    list_members: Callable[[], list[tuple[Pod, int]]]

    def __call__(self, cap: ActiveCap) -> GangNeed:
        """Return the need; none if the cap counts a stored pod of the group, so that it has started.

        Stored pods of which the cap counts nothing are not among those to come.
        """
        uncounted = 0
        for member, number in self.list_members():
            if self.claims.find_own(member).unseen_template or self.compute_each(cap, member):
                return NO_NEED
            uncounted += number
        count = max(self.gang.min_count - uncounted, 1)
        amounts = multiply(self.compute_each(cap, self.pod), count) + self.claims.shared.compute_charge(cap)
        return GangNeed(count, amounts)

    def compute_each(self, cap: ActiveCap, pod: Pod) -> Amounts:
        """Return the amounts of one pod with the claims for it alone; nothing if its quantities cannot be read."""
        with suppress(QuantityError):
            return cap.compute_charge(pod).amounts + self.claims.find_own(pod).compute_charge(cap)
        return NO_AMOUNTS
