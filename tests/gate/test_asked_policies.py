"""The policies that API servers ask about: since when, as a replica sees it."""

import math
from collections.abc import Mapping

import pytest

from tallygate.admission.match_conditions import compute_digest, concerns_every_pod
from tallygate.admission.self_registration import EVERYTHING
from tallygate.gate.asked_policies import PROPAGATION_SECONDS, AskedPolicies
from tallygate.gate.leader_election import Standalone
from tests.admission.case import parse_policies

CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {hard: {nvidia.com/gpu: 4}}
"""


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def read(self) -> float:
        """Return the time."""
        return self.now


def test_a_cap_is_asked_about_by_every_server_some_seconds_after_it_was_read() -> None:
    clock, policies = Clock(), parse_policies(CAP)
    asked = AskedPolicies(lambda: policies, clock.read)
    (cap,) = policies.caps
    assert asked.find_asked_since(cap) is None
    assert asked.estimate_wait(cap) == PROPAGATION_SECONDS
    asked.update({compute_digest(cap): 1})
    clock.now += 3
    assert asked.estimate_wait(cap) == PROPAGATION_SECONDS - 3
    asked.update({compute_digest(cap): 1})
    assert asked.find_asked_since(cap) == 100 + PROPAGATION_SECONDS
    assert not asked.is_asked(cap)
    clock.now = 100 + PROPAGATION_SECONDS
    assert asked.is_asked(cap)
    asked.update({})
    assert asked.find_asked_since(cap) is None


@pytest.mark.parametrize("numbers", [None, {EVERYTHING: 0}])
def test_a_registration_that_asks_about_everything_or_is_not_known_asks_since_ever(
    numbers: Mapping[str, int] | None,
) -> None:
    policies = parse_policies(CAP)
    asked = AskedPolicies(lambda: policies, Clock().read)
    asked.update(numbers)
    assert asked.find_asked_since(policies.caps[0]) == -math.inf
    assert asked.list_waiting() == ()


@pytest.mark.parametrize(("numbers", "waited"), [(None, 0), ({EVERYTHING: 0}, 30), ({}, 0)])
def test_a_policy_was_asked_about_before_only_by_webhooks_that_asked_about_everything(
    numbers: Mapping[str, int] | None, waited: float
) -> None:
    clock, policies = Clock(), parse_policies(CAP)
    asked = AskedPolicies(lambda: policies, clock.read)
    (cap,) = policies.caps
    asked.update(numbers)
    clock.now += 30
    asked.update({compute_digest(cap): 1})
    assert asked.estimate_wait(cap) == PROPAGATION_SECONDS - waited


def test_a_replica_without_others_waits_for_the_registration() -> None:
    """Expect the time of the registration, where there is one."""
    times = {"gpus-1": 110.0}
    assert Standalone(times.get).get_loaded_everywhere_since("gpus-1") == 110
    assert Standalone(times.get).get_loaded_everywhere_since("licences-2") is None
    assert Standalone().get_loaded_everywhere_since("gpus-1") == -math.inf


def test_policies_are_counted_by_what_is_asked_about_for_them() -> None:
    policies = parse_policies(CAP + "---\n" + CAP.replace("gpus", "pods").replace("nvidia.com/gpu", "pods"))
    asked = AskedPolicies(lambda: policies, Clock().read)
    named, wide = policies.caps
    assert concerns_every_pod(wide)
    asked.update({compute_digest(wide): 1})
    assert asked.count_by_reach() == {"every-pod": 1, "named": 0, "waiting": 1}
    asked.update({compute_digest(policy): 1 for policy in (named, wide)})
    assert asked.count_by_reach() == {"every-pod": 1, "named": 1, "waiting": 0}
