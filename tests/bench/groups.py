"""The cost of a decision under a cap with 40 groups, compared with one shared cap, over 5,000 namespaces."""

import itertools
import statistics
import time

import msgspec

from tallygate.admission.request import Phase
from tallygate.cluster.usage_lister import UsageLister
from tallygate.gate.gate import Gate
from tallygate.gate.ledger_reconciler import LedgerReconciler
from tallygate.kube.resource_codec import Replaced
from tallygate.policy.model import PolicySet
from tallygate.review.view import ClusterView
from tallygate.state.in_memory import MemoryLedgers
from tallygate.state.informers.named_stores import NamespaceRecord, NamespaceStore
from tallygate.state.informers.pod_store import PodStore
from tests.bench.comparison import REVIEW
from tests.bench.decisions import parse_policies

_GROUPS, _NAMESPACES, _REVIEWS, _ROUNDS = 40, 5_000, 1_000, 30
_STRIDE = 1_237
_BOUND = 40.0
_CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: gpus}}
spec: {{namespaces: {{include: ["team-*"]}}, {sharing}, hard: {{nvidia.com/gpu: 1000000000}}}}
"""


class BenchReplica:
    """A gate whose ledgers are active, over namespaces with a label of 40 values and without pods."""

    def __init__(self, policies: PolicySet) -> None:
        self._now, nonces = 1000.0, map(str, itertools.count())
        pods, namespaces = PodStore(), NamespaceStore()
        ledgers = MemoryLedgers(is_standalone=False)
        lister = UsageLister(pods, namespaces, self._read_clock, self._read_clock)
        self.gate = Gate(
            policies=lambda: policies,
            view=ClusterView(namespaces=namespaces, usage_lister=lister),
            ledgers=ledgers,
            monotonic=self._read_clock,
            nonce=lambda: next(nonces),
            unix_time=self._read_clock,
        )
        records = [
            NamespaceRecord(f"u-{number}", f"team-{number}", 1, {"team": f"team-{number % _GROUPS}"})
            for number in range(_NAMESPACES)
        ]
        namespaces.apply(Replaced(records, 1))
        pods.apply(Replaced((), 1))
        reconciler = LedgerReconciler(
            caps=self.gate.get_active_caps,
            usage_lister=lister,
            ledgers=ledgers,
            reader=self,
            monotonic=self._read_clock,
            nonce=lambda: next(nonces),
        )
        for _ in range(3):
            self._now += _BOUND
            for key, cap in list(reconciler.list_ledgers([record.name for record in records])):
                reconciler.reconcile(key, cap)

    def _read_clock(self) -> float:
        self._now += 1e-6
        return self._now

    def read_revision(self, *_: object) -> None:
        """Return None: no pod is stored."""

    def measure(self, bodies: list[bytes]) -> float:
        """Return the microseconds of one review."""
        started_at = time.process_time()
        for body in bodies:
            self.gate.admit(body, Phase.VALIDATING, 1e12)
        return (time.process_time() - started_at) / len(bodies) * 1e6


def create_bodies() -> list[bytes]:
    """Return dry runs of creations in many namespaces: they write nothing, so no ledger grows."""
    review = msgspec.json.decode(REVIEW.read_bytes())
    bodies: list[bytes] = []
    for number in range(_REVIEWS):
        name = f"team-{number * _STRIDE % _NAMESPACES}"
        review["request"] |= {"namespace": name, "dryRun": True, "uid": f"r-{number}"}
        review["request"]["object"]["metadata"] |= {"namespace": name, "uid": f"u-{number}"}
        bodies.append(msgspec.json.encode(review))
    return bodies


def main() -> None:
    """Measure both in turns, and print the medians."""
    shared, grouped = (
        BenchReplica(parse_policies(_CAP.format(sharing=sharing)))
        for sharing in ("shared: true", "groupBy: {label: team}")
    )
    bodies = create_bodies()
    rounds = [(shared.measure(bodies), grouped.measure(bodies)) for _ in range(_ROUNDS)]
    one, many = (statistics.median(times) for times in zip(*rounds, strict=True))
    ratio = statistics.median(after / before for before, after in rounds)
    print("| cap | µs/review |\n| --- | ---: |")
    print(f"| shared by {_NAMESPACES:,} namespaces | {one:.1f} |\n| {_GROUPS} groups of them | {many:.1f} |")
    print(f"\nratio {ratio:.2f}")
