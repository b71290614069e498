"""One replica of the gate that watches claims for devices, and device classes that a test sets."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.devices.least_amounts import LeastAmounts
from tallygate.accounting.pod_defaults import UNKNOWN_POD_DEFAULTS
from tallygate.admission.cap_index import CapIndex
from tallygate.admission.cap_sources import CapSources
from tallygate.cluster.usage_lister import UsageLister
from tallygate.gate.decisions import Decision
from tallygate.gate.gate import Gate
from tallygate.gate.ledger_reconciler import LedgerReconciler
from tallygate.kube.resource_codec import Bookmark
from tallygate.review.view import ClusterView
from tallygate.review.whole_workloads import read_workload_state
from tallygate.state.informers.claim_store import ClaimStore
from tallygate.state.informers.device_store import DeviceStore, SliceRecord
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey
from tests.accounting.claims import CLASS, Object
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import CAP, GPU, response
from tests.gate.replica_fixture import BOUND, ReplicaFixture
from tests.state.informers.claim_templates import create_store
from tests.state.informers.claims import claim_line, claim_page
from tests.state.transitions import Put

_GROUP = "resource.k8s.io"


class ClaimReplica(ReplicaFixture):
    """A replica with watches of pods and claims; a test moves its time, and delivers the events of each watch."""

    def __init__(self, text: str = CAP, resources_by_class: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.resources_by_class: Mapping[str, str] = {CLASS: GPU} if resources_by_class is None else resources_by_class
        self.live_claims: dict[str, int] = {}
        self.claims_during_count: list[Object] = []
        self.claims = ClaimStore(self._read_time_of_claims)
        self.devices = DeviceStore(self.claims.list_devices)
        self.selectors: dict[str, tuple[str, ...]] = {CLASS: ()}
        self.templates = create_store()
        self.pod_defaults = UNKNOWN_POD_DEFAULTS
        self.slice_lists = 0
        self.usage_lister = UsageLister(
            self.pods,
            self.namespaces,
            lambda: self.now,
            self._get_synced_at,
            self._request_progress,
            claims=self.claims,
            devices=self.devices,
        )
        self.gate = Gate(
            policies=lambda: self.policies,
            view=ClusterView(
                namespaces=self.namespaces,
                usage_lister=self.usage_lister,
                cap_sources=lambda: CapSources(self.resources_by_class),
                claim_templates=self.templates,
                least_amounts=LeastAmounts(self._list_slices, self.selectors.get),
                workload_reader=self.stored,
                find_pod_defaults=lambda _: self.pod_defaults,
            ),
            ledgers=self.ledgers,
            monotonic=lambda: self.now,
            nonce=self._nonce,
            unix_time=self.read_unix_time,
        )
        self.caps: CapIndex = self.gate.get_active_caps()
        self.reconciler = LedgerReconciler(
            caps=lambda: self.caps,
            usage_lister=self.usage_lister,
            ledgers=self.ledgers,
            reader=self,
            monotonic=self._read_clock,
            nonce=self._nonce,
            in_flight_bound=BOUND,
            leadership=self.leadership,
            read_workload=partial(read_workload_state, self.stored, self.gate.get_review_targets),
        )
        self.claims.apply(claim_page(self.revision))

    def read_revision(self, kind: ConsumerKind, namespace: str, name: str, uid: str) -> int | None:
        """Return the revision of a stored claim or pod."""
        assert namespace == "team-a"
        if kind is ConsumerKind.CLAIM:
            assert name == f"claim-{uid}"
            return self.live_claims.get(uid)
        stored = self.stored_pods.get(uid)
        return int(stored["metadata"]["resourceVersion"]) if stored else None

    def _list_slices(self) -> Sequence[SliceRecord] | None:
        self.slice_lists += 1
        return self.devices.list_slices()

    def _read_time_of_claims(self) -> float:
        """Return the time; the claims `claims_during_count` arrive just before."""
        while self.claims_during_count:
            self.observe_claim(self.claims_during_count.pop())
        return self.now

    def next_revision(self) -> int:
        """Return the revision of a next change of the cluster."""
        self.revision += 1
        return self.revision

    def observe_claim(self, claim: Object) -> None:
        """Deliver a watch event with a stored claim."""
        self.revision = max(self.revision, int(claim["metadata"]["resourceVersion"]))
        self.claims.apply(claim_line("MODIFIED", claim))

    def delete_claim(self, claim: Object) -> None:
        """Deliver the watch event of a deletion."""
        self.claims.apply(claim_line("DELETED", claim))

    def claims_bookmark(self) -> None:
        """Deliver a bookmark of claims at the newest revision."""
        self.claims.apply(Bookmark(self.revision))

    def change_pod(self, uid: str, **fields: Any) -> None:
        """Change fields of a stored pod, and deliver the watch event."""
        pod = self.stored_pods[uid]
        pod["metadata"]["resourceVersion"] = str(self.next_revision())
        for field, value in fields.items():
            pod[field] = {**pod[field], **value}
        self.observe(uid)

    def name_claim(self, uid: str, claim_name: str) -> None:
        """Name the scheduler's claim in the status of a pod, and deliver the watch event."""
        self.change_pod(uid, status={"extendedResourceClaimStatus": {"resourceClaimName": claim_name}})

    def review_claim(self, claim: Object, **request: Any) -> Decision:
        """Review the creation of a claim."""
        kind = {"group": _GROUP, "kind": "ResourceClaim"}
        return self.admit(claim, kind=kind, name=claim["metadata"]["name"], **request)

    def request_claim(self, claim: Object, **request: Any) -> int:
        """Review the creation of a claim and return 200, or the status code of the rejection."""
        return _get_code(self.review_claim(claim, **request))

    def allocate(self, stored: Object, allocated: Object) -> int:
        """Review a change of the status of a claim and return 200, or the status code of the rejection."""
        return _get_code(self.review_claim(allocated, oldObject=stored, subResource="status"))

    def change_classes(self, resources_by_class: Mapping[str, str]) -> None:
        """Change the extended resources of the device classes."""
        self.resources_by_class = resources_by_class
        self.caps = self.gate.get_active_caps()

    def load_policies(self, text: str) -> None:
        """Replace the policies."""
        self.policies = parse_policies(text)
        self.caps = self.gate.get_active_caps()

    def put_ledger(self, ledger: Ledger) -> None:
        """Replace the ledger of the only cap in team-a by that of another replica."""
        (cap,) = self.caps.list_caps()
        self.ledgers.transact(LedgerKey(cap.key, "team-a"), Put(lambda _: ledger), self.now + 1)


def _get_code(decision: Decision) -> int:
    body = response(decision)
    return 200 if body["allowed"] else int(body["status"]["code"])


def create_claim_replica(text: str = CAP, resources_by_class: Mapping[str, str] | None = None) -> ClaimReplica:
    """Return a replica whose ledgers are active, at a revision below 200."""
    replica = ClaimReplica(text, resources_by_class)
    replica.activate_ledgers()
    return replica


def create_replica_with_pod(text: str, gpus: int) -> ClaimReplica:
    """Return a replica that has seen the pod `u1` with these GPUs."""
    replica = create_claim_replica(text)
    replica.store_pod("u1", gpus)
    replica.observe("u1")
    return replica
