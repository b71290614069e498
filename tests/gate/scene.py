"""A gate over policies written as text, with a clock and nonces that count."""

import dataclasses
import itertools
import json
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn

from tests.admission.case import policies
from tests.state.attempts import Look, Put
from webhook.admission.request import Phase
from webhook.gate.decisions import Decision
from webhook.gate.gate import Gate
from webhook.gate.scale_requests import WorkloadReader
from webhook.gate.schedulability import SnapshotProvider, check_schedulability
from webhook.gate.workload_forecast import QuotaLister
from webhook.policy.model import PolicySet
from webhook.state.in_memory import FixedNamespaces, MemoryLedgers, UnknownNamespaces
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey, Ledgers, NamespaceLister

GPU = "nvidia.com/gpu"
CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec:
  namespaces: {include: ["team-*"]}
  hard: {nvidia.com/gpu: 4}
"""
SHARED = CAP.replace("hard:", "shared: true\n  hard:")
BY_LABEL = CAP.replace('include: ["team-*"]', "selector: {matchLabels: {gpu: 'yes'}}")
TWO = CAP.replace("gpus", "a-first") + "---" + CAP.replace("gpus", "b-second")


class Scene:
    """A gate and everything around it; `now` is in seconds."""

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        text: str = CAP,
        *,
        ledgers: Ledgers | None = None,
        labels: Mapping[str, Mapping[str, str]] | None = None,
        quotas: QuotaLister | None = None,
        placing: SnapshotProvider | None = None,
        workloads: WorkloadReader | None = None,
    ) -> None:
        self.policies: PolicySet = policies(text)
        self.ledgers: Ledgers = ledgers or MemoryLedgers()
        self.now = 0.0
        self._uids = itertools.count(1)
        nonces = itertools.count(1)
        lister: NamespaceLister = UnknownNamespaces() if labels is None else FixedNamespaces(labels)
        self.gate = Gate(
            policies=lambda: self.policies,
            namespaces=lister,
            ledgers=self.ledgers,
            monotonic=lambda: self.now,
            nonce=lambda: f"n{next(nonces)}",
            quotas=quotas,
            evaluate_node_rules=partial(check_schedulability, snapshots=placing) if placing else None,
            workload_reader=workloads,
        )

    def admit(self, object_: dict[str, Any], phase: Phase = Phase.VALIDATING, **request: Any) -> Decision:
        """Put an object through."""
        kind = object_.get("kind", "Pod")
        whole = {
            "uid": "r",
            "kind": {"group": "", "kind": kind},
            "operation": "UPDATE" if "oldObject" in request else "CREATE",
            "namespace": "team-a",
            "name": "p",
            "userInfo": {"username": "jane"},
            "object": object_,
        } | request
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole}
        return self.gate.admit(json.dumps(body).encode(), phase, self.deadline())

    def deadline(self) -> float:
        """When a decision must be there."""
        return 5.0

    def create(self, gpus: int, **request: Any) -> Decision:
        """Create another pod with that many GPUs."""
        return self.admit(pod(f"u{next(self._uids)}", gpus), **request)

    def promised(self, cap: str = "gpus", namespace: str = "team-a") -> dict[str, int]:
        """What the one ledger of a cap promises now, by name."""
        found = self.ledger(cap, namespace)
        return {name: amount for name, amount in found.reserved.items() if amount} if found else {}

    def ledger(self, cap: str = "gpus", namespace: str = "team-a") -> Ledger | None:
        """The one ledger of a cap as it is now."""
        return self.ledgers.transact(self.key(cap, namespace), Look(), math.inf)

    def change(self, **fields: Any) -> None:
        """Change fields of the ledger of cap gpus, as somebody else would."""
        self.ledgers.transact(self.key(), Put(lambda found: dataclasses.replace(found or never(), **fields)), math.inf)

    def key(self, cap: str = "gpus", namespace: str = "team-a") -> LedgerKey:
        """Which ledger it is."""
        force = self.gate._get_policy_set()  # noqa: SLF001  # the tests' only way to a ledger's key
        (key,) = {counted.key for counted in force.caps.list_caps() if counted.definition.name == cap}
        return LedgerKey(key, namespace)


def pod(uid: str, gpus: int | str, **spec: Any) -> dict[str, Any]:
    """A pod as the API server sends it: request copied from limit."""
    amount = {GPU: str(gpus)}
    container = {"name": "c", "resources": {"requests": amount, "limits": amount}}
    return {"kind": "Pod", "metadata": {"uid": uid, "name": uid}, "spec": {"containers": [container], **spec}}


def never() -> NoReturn:
    """For what must be there."""
    raise AssertionError


def response(answer: Decision) -> dict[str, Any]:
    """What the API server reads."""
    found: dict[str, Any] = json.loads(answer.body)["response"]
    return found
