"""Decisions in process: the cost of one review with few rules and with a thousand."""

import itertools
import statistics
import time

from tallygate.admission.request import Phase
from tallygate.gate.gate import Gate
from tallygate.policy.load import SHIPPED_POLICIES, load_policies
from tallygate.policy.model import PolicySet
from tallygate.policy.parse import parse
from tallygate.review.view import ClusterView
from tallygate.state.in_memory import MemoryLedgers, UnknownNamespaces
from tests.bench.comparison import REVIEW

_RULE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {{name: rule-{number}}}
spec:
  resources: ["vendor-{number}.com/*"]
  match: {{namespaces: {{exclude: ["system-{number}"]}}}}
  checks: {{perContainer: {{max: 8}}}}
"""
_CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: ["*"]}, hard: {nvidia.com/gpu: 1000000000}}
"""


def parse_policies(text: str) -> PolicySet:
    """Return the policies of a text."""
    return parse([("bench.yaml", text.encode())]).policies


def create_gate(policies: PolicySet) -> Gate:
    """Return a gate with ledgers in memory."""
    nonces = map(str, itertools.count())
    return Gate(
        policies=lambda: policies,
        view=ClusterView(namespaces=UnknownNamespaces()),
        ledgers=MemoryLedgers(),
        monotonic=time.monotonic,
        nonce=lambda: next(nonces),
        unix_time=time.time,
    )


def measure_review(measured: Gate, body: bytes, rounds: int = 7, reviews: int = 4000) -> float:
    """Return the microseconds of one review: the median of several rounds."""
    times: list[float] = []
    for _ in range(rounds):
        started_at = time.perf_counter()
        for _ in range(reviews):
            measured.admit(body, Phase.VALIDATING, 1e12)
        times.append((time.perf_counter() - started_at) / reviews * 1e6)
    return statistics.median(times)


def main() -> None:
    """Measure and print the table."""
    body = REVIEW.read_bytes()
    sets = {
        "shipped policies": load_policies([SHIPPED_POLICIES]).policies,
        "10 rules": parse_policies("---".join(_RULE.format(number=number) for number in range(10))),
        "1,000 rules": parse_policies("---".join(_RULE.format(number=number) for number in range(1000))),
        "a cap (memory ledger, one pod again and again)": parse_policies(_CAP),
    }
    costs = {label: measure_review(create_gate(policies), body) for label, policies in sets.items()}
    print("| policies | µs a review | decisions/s in one thread |")
    print("| --- | ---: | ---: |")
    for label, cost in costs.items():
        print(f"| {label} | {cost:.1f} | {1e6 / cost:,.0f} |")
    print(f"\n1,000 rules cost {costs['1,000 rules'] / costs['10 rules']:.2f} × what 10 cost")
