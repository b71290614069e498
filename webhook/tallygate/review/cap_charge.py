"""The charges of a request under caps: the consumer, its amounts under each cap, and the results of the ledgers."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.admission.cap_index import ActiveCap
from tallygate.objects.core import Pod
from tallygate.review.cap_reach import GuaranteedToOthers
from tallygate.state.ledger.ledger import NO_ACTIVATION, Activation, Ledger, Operation
from tallygate.state.ledger.reserve import NO_WORKLOAD, Prerequisite, WorkloadTerms
from tallygate.state.ledger.surges import NO_TERMS, SurgeTerms
from tallygate.state.ports import RetryLaterError, StoreUnavailableError


class ChargedConsumer(msgspec.Struct, frozen=True):
    """The pod or claim to charge, and the nonce of this attempt; a dry run charges nothing.

    `allocates_at` is the revision of the stored claim if its devices are allocated, else 0. `pod_uid` and `pod_name`
    are those of the pod for which kube-scheduler creates a claim, or empty (rule 10). `workload` has what caps need
    that admit workloads as a whole (rule 11).
    """

    uid: str
    namespace: str
    name: str
    attempt: str
    operation: Operation
    is_dry_run: bool = False
    kind: ConsumerKind = ConsumerKind.POD
    allocates_at: int = 0
    pod_uid: str = ""
    pod_name: str = ""
    workload: WorkloadTerms = NO_WORKLOAD


class FixedAmounts(msgspec.Struct, frozen=True):
    """The part of an allocation that counts the same whatever devices the claim gets, as a charge."""

    current: Amounts = NO_AMOUNTS
    requested: Amounts = NO_AMOUNTS


_NOTHING_FIXED = FixedAmounts()


class GangNeed(NamedTuple):
    """The amounts under a cap of the pods of a PodGroup that are still to come, all together, and their number."""

    pod_count: int = 0
    amounts: Amounts = NO_AMOUNTS


NO_NEED = GangNeed()


class CapCharge(msgspec.Struct, frozen=True):
    """The amounts of one consumer under one cap: `current` of the stored object, `requested` of the new one.

    `fixed` are the amounts of an allocation that its claim was charged for when it was created: they are decided only
    if the ledger had other mappings of device classes then (rule 10). `charge_under` returns the charge under a cap
    with former mappings; None if they do not matter. `compute_gang` returns what the PodGroup of a new pod needs as a
    whole, by the pods that are stored now: nothing once it has started; None if it does not reserve.

    `may_exceed` is True if this user may exceed the cap. `pod` is the pod whose derived amounts messages explain.
    `rolls_at` is the time, in seconds of the Unix epoch, at which the controller of the pod was found to roll; 0 if it
    was not.
    """

    cap: ActiveCap
    current: Amounts
    requested: Amounts
    may_exceed: bool
    pod: Pod | None = None
    rolls_at: int = 0
    fixed: FixedAmounts = _NOTHING_FIXED
    charge_under: Callable[[ActiveCap], "CapCharge"] | None = None
    compute_gang: Callable[[ActiveCap], GangNeed] | None = None

    def adapt_to_ledger(self, ledger: Ledger) -> "CapCharge":
        """Return the charge by the mappings of device classes that the ledger was counted with.

        Amounts are decided again if the ledger may count consumers under their names that passed no guard, or must be
        counted first.
        """
        charge, cap = self, self.cap.with_former(ledger.mappings)
        if cap is not self.cap:
            charge = self if self.charge_under is None else self.charge_under(cap)
            charge = msgspec.structs.replace(charge, cap=cap, rolls_at=self.rolls_at, compute_gang=self.compute_gang)
        names = charge.fixed.requested.keys()
        undecided = {
            name
            for name in names
            if name in ledger.remapping.names or not ledger.resources >= cap.list_sources((name,))
        }
        if not undecided or ledger.initializer:
            return charge
        current, requested = (
            amounts + {name: amount for name, amount in fixed.items() if name in undecided}
            for amounts, fixed in ((charge.current, charge.fixed.current), (charge.requested, charge.fixed.requested))
        )
        return msgspec.structs.replace(charge, current=current, requested=requested)

    @property
    def is_limited(self) -> bool:
        """Whether the consumer has, or requests, a name with a hard limit: else no state of the ledger rejects it.

        It may do so by a former mapping that only the ledger has, or for the PodGroup of the consumer.
        """
        hard = self.cap.hard
        if self.charge_under is not None or self.compute_gang is not None:
            return True
        return any(name in hard for name in self.requested) or any(name in hard for name in self.current)

    @property
    def unmeasured(self) -> list[str]:
        """The names of which the consumer requests more than it has, and whose hard limit is not known."""
        return sorted(self.cap.limits.unknown & self.requested.find_shortfall(self.current).keys())

    @property
    def surge_terms(self) -> SurgeTerms:
        """The surge for a pod of a controller that rolls."""
        surge = self.cap.definition.surge
        return SurgeTerms(self.cap.surge, surge.seconds, self.rolls_at) if self.rolls_at and surge else NO_TERMS


class CapChargeResult(msgspec.Struct, frozen=True):
    """The result under one cap: the stored ledger (`before`), the ledger after the charge, and the amounts in excess.

    If the cap rejects the consumer, `ledger` is the ledger without the charge. `guaranteed` are the guarantees of
    others under the names in excess. If it rejects the PodGroup of a new pod, `gang_pods` is the number of pods for
    which the charge is, else 0.
    """

    charge: CapCharge
    before: Ledger
    ledger: Ledger
    excess: Amounts
    guaranteed: Mapping[str, GuaranteedToOthers] = MappingProxyType({})
    gang_pods: int = 0


class CapObstacle(msgspec.Struct, frozen=True):
    """The reason why there is no result under one cap: a prerequisite of the ledger, or the error of a store.

    `activation` is the state of a ledger that is not active.
    """

    cap: str
    cause: Prerequisite | RetryLaterError | StoreUnavailableError
    activation: Activation = NO_ACTIVATION


class ChargeResult(msgspec.Struct, frozen=True):
    """The results under all caps: `reserved` under every cap, or nothing is reserved.

    One cap in `exceeded` rejects the consumer. Otherwise one of `obstacles` leaves it undecided. `unevaluated` are
    caps that gave no result and cannot reject the consumer: nothing is known to be reserved under them.
    """

    reserved: tuple[CapChargeResult, ...] = ()
    exceeded: tuple[CapChargeResult, ...] = ()
    obstacles: tuple[CapObstacle, ...] = ()
    unevaluated: tuple[CapObstacle, ...] = ()

    @property
    def is_final(self) -> bool:
        """True if a cap rejects the consumer or leaves it undecided."""
        return bool(self.exceeded or self.obstacles)
