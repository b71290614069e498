"""The second attempt of a rejected pod, with a surge, if its controller rolls (rule 12).

The replica decides by its own view. The ground truth of that view is computed apart from the rules: from the log of
pods, up to the revision that the replica has seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger.surges import NO_TERMS, SurgeTerms
from tests.state.simulation.ground_truth import GroundTruth, Key, is_under
from tests.state.simulation.policies import Policy
from tests.state.simulation.replica import Replica
from tests.state.simulation.stored_objects import Pod, Template


@dataclass(frozen=True)
class SurgeAttempt:
    """An attempt with a surge under the ledgers of `keys`.

    `clock` is the time of its begin by the clock of the replica, `attempted_at` the same by the true clock.
    """

    keys: frozenset[Key]
    clock: int
    attempted_at: int

    def create_terms(self, key: Key, policy: Policy) -> SurgeTerms:
        """Return the terms of a request under a cap; those of the other caps have no surge."""
        if key not in self.keys:
            return NO_TERMS
        return SurgeTerms(policy.list_surge(key), policy.surge_ticks[key.cap], self.clock)


NO_SURGE = SurgeAttempt(frozenset(), 0, 0)


@dataclass
class RolloutView:
    """The view that one replica has of the controller of a pod, which belongs to `namespace` and has `template`."""

    truth: GroundTruth
    replica: Replica
    namespace: int
    template: Template

    def begin_attempt(self, exceeded: Mapping[Key, Amounts], policy: Policy) -> SurgeAttempt | None:
        """Return the second attempt, if each exceeded name has a surge, and the controller rolls under each cap."""
        rules = self.replica.rules
        for key, excess in exceeded.items():
            if excess.keys() - policy.list_surge(key).keys():
                return None
            if not rules.is_rolling(self.template, self.replica.list_templates(key, self.namespace)):
                return None
        return SurgeAttempt(frozenset(exceeded), self.replica.read_time(), self.truth.now)

    def is_rolling(self, key: Key) -> bool:
        """Return whether a pod that runs and counts under a cap has another template, at the replica's revision."""
        truth, pods = self.truth, dict[str, Pod]()
        for revision, uid, pod in truth.log:
            if revision > self.replica.pods_revision:
                break
            if pod is None:
                del pods[uid]
            else:
                pods[uid] = pod
        workload, number = self.template
        return bool(workload) and any(
            pod.template.workload == workload and pod.template.number != number
            for pod in pods.values()
            if not pod.ended and is_under(truth.scenario, self.replica.labels, key, pod)
        )
