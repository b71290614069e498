"""A gate with policies that are written as text, a clock that a test sets, and nonces that count."""

import itertools
import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, NoReturn

from msgspec import structs

from tallygate.accounting.claim_charge import NO_CLASSES
from tallygate.accounting.pod_defaults import NO_POD_DEFAULTS, PodDefaults
from tallygate.admission.cap_sources import CapSources
from tallygate.admission.request import Phase
from tallygate.gate.decisions import Decision
from tallygate.gate.gate import Gate
from tallygate.gate.limit_admissions import LimitAdmissions
from tallygate.gate.policy_reviews import PolicyReviews
from tallygate.policy.model import PolicySet
from tallygate.review.advertised_devices import DeviceLister
from tallygate.review.advertised_names import may_be_advertised
from tallygate.review.claim_forecast import ClaimTemplateLister
from tallygate.review.cluster_snapshot import SnapshotProvider
from tallygate.review.quota_forecast import QuotaLister
from tallygate.review.scale_requests import WorkloadReader
from tallygate.review.schedulability import check_schedulability, count_pods_on_nodes
from tallygate.review.view import ClusterView
from tallygate.state.in_memory import MemoryLedgers, UnknownNamespaces
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, Ledgers, NamespaceLister
from tests.admission.case import parse_policies
from tests.state.fixed_namespaces import FixedNamespaces
from tests.state.transitions import Put, Read
from tests.wording import join_facts

GPU = "nvidia.com/gpu"
CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec:
  namespaces: {include: ["team-*"]}
  hard: {nvidia.com/gpu: 4}
"""
_NAMES = frozenset({"cpu", "future", "gpu", "gpus", "memory", "missing"})
"""Names in the policies and objects of tests that are words like any other."""
SHARED = CAP.replace("hard:", "shared: true\n  hard:")
BY_LABEL = CAP.replace('include: ["team-*"]', "selector: {matchLabels: {gpu: 'yes'}}")
TWO = CAP.replace("gpus", "a-first") + "---" + CAP.replace("gpus", "b-second")


class GateFixture:
    """A gate and the ports that it needs; `now` is in seconds, `utc` the time by which overrides end."""

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        text: str = CAP,
        *,
        ledgers: Ledgers | None = None,
        labels: Mapping[str, Mapping[str, str]] | None = None,
        quotas: QuotaLister | None = None,
        snapshots: SnapshotProvider | None = None,
        devices: DeviceLister | None = None,
        workloads: WorkloadReader | None = None,
        claim_templates: ClaimTemplateLister | None = None,
        resources_by_class: Mapping[str, str] = NO_CLASSES,
        limit_admissions: LimitAdmissions | None = None,
        pod_defaults: PodDefaults = NO_POD_DEFAULTS,
        find_page: Callable[[str], str] | None = None,
        policy_reviews: PolicyReviews | None = None,
    ) -> None:
        self.policies: PolicySet = parse_policies(text)
        self.cap_sources = CapSources(resources_by_class)
        self.ledgers: Ledgers = ledgers or MemoryLedgers()
        self.now = 0.0
        self.utc: datetime | None = None
        self._uids = itertools.count(1)
        self._names: dict[str, dict[str, str]] = {}
        nonces = itertools.count(1)
        lister: NamespaceLister = UnknownNamespaces() if labels is None else FixedNamespaces(labels)
        self.gate = Gate(
            policies=lambda: self.policies,
            view=ClusterView(
                namespaces=lister,
                quotas=quotas,
                evaluate_node_rules=partial(check_schedulability, snapshots=snapshots, devices=devices)
                if snapshots
                else None,
                workload_reader=workloads,
                claim_templates=claim_templates,
                cap_sources=lambda: self.cap_sources,
                find_pod_defaults=lambda _: pod_defaults,
                count_daemon_pods=partial(count_pods_on_nodes, snapshots=snapshots) if snapshots else None,
                is_advertised=partial(may_be_advertised, snapshots=snapshots) if snapshots else lambda _: True,
            ),
            ledgers=self.ledgers,
            monotonic=lambda: self.now,
            nonce=lambda: f"n{next(nonces)}",
            unix_time=self.read_unix_time,
            limit_admissions=limit_admissions,
            find_page=find_page,
            policy_reviews=policy_reviews,
        )

    def admit(self, object_: dict[str, Any], phase: Phase = Phase.VALIDATING, **request: Any) -> Decision:
        """Return the decision on a review of the object."""
        kind = object_.get("kind", "Pod")
        whole = {
            "uid": "r",
            "kind": {"group": "", "kind": kind},
            "operation": "UPDATE" if "oldObject" in request else "CREATE",
            "namespace": "team-a",
            "name": self._name_object(object_),
            "userInfo": {"username": "jane"},
            "object": object_,
        } | request
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole}
        return self.gate.admit(json.dumps(body).encode(), phase, self.get_deadline())

    def _name_object(self, object_: dict[str, Any]) -> str:
        """Return another name for each UID, since reservations of one name share their amounts; the first is p."""
        names = self._names.setdefault(object_.get("kind", "Pod"), {})
        uid = object_.get("metadata", {}).get("uid", "")
        return names.setdefault(uid, f"p{len(names) + 1}" if names else "p")

    def read_unix_time(self) -> float:
        """Return the time of the Unix epoch: `utc`, or else that of the clock."""
        return self.now if self.utc is None else self.utc.timestamp()

    def get_deadline(self) -> float:
        """Return the deadline of a decision, in seconds of the clock."""
        return 5.0

    def create(self, gpus: int, **request: Any) -> Decision:
        """Create another pod with the given number of GPUs."""
        return self.admit(pod(f"u{next(self._uids)}", gpus), **request)

    def read_reserved(self, cap: str = "gpus", namespace: str = "team-a") -> dict[str, int]:
        """Return the reserved amounts in the only ledger of a cap, by resource name."""
        found = self.find_ledger(cap, namespace)
        return {name: amount for name, amount in found.reserved.items() if amount} if found else {}

    def find_ledger(self, cap: str = "gpus", namespace: str = "team-a") -> Ledger | None:
        """Return the only ledger of a cap as it is stored, or None if it is missing."""
        return self.ledgers.transact(self.get_ledger_key(cap, namespace), Read(), math.inf)

    def change_ledger(self, **fields: Any) -> None:
        """Change fields of the ledger of cap gpus, as another replica would."""
        self.ledgers.transact(
            self.get_ledger_key(),
            Put(lambda found: structs.replace(found or raise_missing(), **fields)),
            math.inf,
        )

    def get_ledger_key(self, cap: str = "gpus", namespace: str = "team-a") -> LedgerKey:
        """Return the key of the only ledger of a cap."""
        active = self.gate.get_active_caps()
        (key,) = {each.key for each in active.list_caps() if each.definition.name == cap}
        return LedgerKey(key, namespace)


def pod(uid: str, gpus: int | str, **spec: Any) -> dict[str, Any]:
    """Return a pod as the API server sends it: the request is a copy of the limit."""
    amount = {GPU: str(gpus)}
    container = {"name": "c", "resources": {"requests": amount, "limits": amount}}
    return {"kind": "Pod", "metadata": {"uid": uid, "name": uid}, "spec": {"containers": [container], **spec}}


def read_facts(message: str) -> str:
    """Return the facts of a message: codes, paths, amounts and names (tests/wording.py)."""
    return join_facts(message, _NAMES)


def raise_missing() -> NoReturn:
    """Fail the test, because a ledger is missing."""
    raise AssertionError


def response(decision: Decision) -> dict[str, Any]:
    """Return the response that the API server reads."""
    found: dict[str, Any] = json.loads(decision.body)["response"]
    return found
