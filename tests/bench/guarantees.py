"""The cost of a decision under a shared cap with guarantees, compared with one without, over 5,000 namespaces.

A part of the namespaces has a reservation each: the unspent guarantees of these depend on it.
"""

import statistics

import msgspec

from tallygate.admission.request import Phase
from tests.bench.decisions import parse_policies
from tests.bench.groups import BenchReplica, create_bodies

_RESERVED, _ROUNDS = 100, 30
_CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: gpus}}
spec:
  namespaces: {{include: ["team-*"]}}
  shared: true
  hard: {{nvidia.com/gpu: 1000000000}}
{guarantee}
"""
_TEAMS = [f"team-{number}" for number in range(300)]
_GUARANTEES = {
    "none": "",
    "1": "  guarantee: [{namespaces: [team-0], amounts: {nvidia.com/gpu: 8}}]",
    "300": "  guarantee: [{namespaces: [" + ", ".join(_TEAMS) + "], amounts: {nvidia.com/gpu: 8}}]",
}


def _create_replica(guarantee: str, bodies: list[bytes]) -> BenchReplica:
    """Return a replica with active ledgers, in which the first reviews have reserved."""
    replica = BenchReplica(parse_policies(_CAP.format(guarantee=guarantee)))
    for body in bodies[:_RESERVED]:
        review = msgspec.json.decode(body)
        review["request"]["dryRun"] = False
        replica.gate.admit(msgspec.json.encode(review), Phase.VALIDATING, 1e12)
    return replica


def main() -> None:
    """Measure all in turns, and print the medians."""
    bodies = create_bodies()
    replicas = [_create_replica(guarantee, bodies) for guarantee in _GUARANTEES.values()]
    rounds = [[replica.measure(bodies) for replica in replicas] for _ in range(_ROUNDS)]
    print("| namespaces with a guarantee | µs/review | ratio |\n| --- | ---: | ---: |")
    for index, label in enumerate(_GUARANTEES):
        cost = statistics.median(times[index] for times in rounds)
        ratio = statistics.median(times[index] / times[0] for times in rounds)
        print(f"| {label} | {cost:.1f} | {ratio:.2f} |")
