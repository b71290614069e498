"""The comparison of claims with caps by allocated devices: with the least that they get of a snapshot's devices.

It uses the forecasts of the gate, with the ResourceSlices and claims of the snapshot. Nothing is reserved under such a
cap before kube-scheduler allocates devices, so each object is compared with the used amounts of the snapshot alone.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tallygate.accounting.devices.least_amounts import LeastAmounts, LeastAmountsReview
from tallygate.accounting.problem import Problem
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.kinds import BUILT_IN_TARGETS, DecodedRequest
from tallygate.cli.check.snapshot_usage import SnapshotUsage
from tallygate.cli.manifests.typed_objects import TypedObject
from tallygate.gate.applied_workload import multiply
from tallygate.gate.claim_forecast import LedgerReader, PodClaims, forecast_devices
from tallygate.gate.device_forecast import compute_least, is_counted
from tallygate.gate.usage_lister import get_ledger_key
from tallygate.objects.devices import DeviceClass, ResourceClaim, list_expressions


class AllocationChecker:
    """A checker of claims under names that count allocated devices. `read_ledger` states which names it counts."""

    def __init__(self, usage: SnapshotUsage, classes: Iterable[DeviceClass]) -> None:
        selectors = {
            device_class.metadata.name: list_expressions(device_class.spec.selectors if device_class.spec else None)
            for device_class in classes
            if device_class.metadata is not None and device_class.metadata.name
        }
        self._usage = usage
        self._least_amounts = LeastAmounts(usage.list_slices, selectors.get)

    def start_review(self) -> LeastAmountsReview:
        """Return the least amounts for the claims of one object."""
        return self._least_amounts.start_review()

    def forecast(self, typed: TypedObject, caps: Sequence[ActiveCap], read_ledger: LedgerReader) -> Iterator[Problem]:
        """Yield a problem for each cap that has no room for a claim or template, as the gate warns its creator."""
        return forecast_devices(DecodedRequest(typed.request, BUILT_IN_TARGETS), caps, self._least_amounts, read_ledger)

    def describe(
        self, namespace: str, claim: ResourceClaim, caps: Iterable[ActiveCap], read_ledger: LedgerReader
    ) -> Iterator[str]:
        """Yield a message for each cap with names under which a claim was not compared with the limit."""
        review = self.start_review()
        for cap in caps:
            if not cap.counts_allocation(claim, is_owned=False):
                continue
            ledger = read_ledger(cap)
            compared = {
                name
                for name in compute_least(cap, (claim,), review)
                if name in cap.hard and ledger is not None and is_counted(ledger, cap, name)
            }
            names = sorted(cap.device_meters.keys() - compared)
            if names:
                used = self._usage.describe_allocated(cap, get_ledger_key(cap, namespace), names)
                some = "" if self._usage.list_slices() is None else "some "
                yield (
                    f"cap {cap.definition.name} counts {', '.join(names)} when devices are allocated, so {some}claims "
                    f"of namespace {namespace} were not compared with it; {used}"
                )


def select_comparable(claims: PodClaims, cap: ActiveCap, stored: Sequence[ResourceClaim], pod_count: int) -> PodClaims:
    """Return the claims of each pod of a workload, without the least amounts if its stored pods have other claims.

    Those may have got more than their least, so the increase is unknown, as in the gate (`add_claims`).
    """
    is_alike = compute_least(cap, stored, claims.review) == multiply(claims.compute_least(cap), pod_count)
    return claims if is_alike else msgspec.structs.replace(claims, review=None)
