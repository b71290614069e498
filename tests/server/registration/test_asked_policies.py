"""What the API servers are asked to ask about: wider at once, narrower late, and active only then."""

from typing import Any

import pytest

from tallygate.admission.match_conditions import compute_digest
from tallygate.gate.asked_policies import PROPAGATION_SECONDS
from tallygate.policy.model import PolicySet
from tests.admission.case import parse_policies
from tests.server.registration.memory_registration import Gate, MemoryRegistrationStore

CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: %s}
spec: {namespaces: {include: ["team-%s"]}, hard: {nvidia.com/gpu: 4}}
"""
FIRST, SECOND = (parse_policies(CAP % (name, name)) for name in ("a", "b"))
BOTH = parse_policies(CAP % ("a", "a") + "---" + CAP % ("b", "b"))
BY_LABEL = CAP.replace('include: ["team-%s"]', "selector: {matchLabels: {tier: %s}}")
LABELLED = parse_policies(BY_LABEL % ("gold", "gold"))
MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"


def read_condition(store: MemoryRegistrationStore) -> str:
    """Return the condition by which new objects are asked about; empty without one."""
    first = store.stored[VALIDATING]["webhooks"][0]
    conditions: list[dict[str, Any]] = first.get("matchConditions", [])
    return next((found["expression"] for found in conditions if found["name"] == "a-policy-may-decide"), "")


def list_digests(policies: PolicySet) -> set[str]:
    """Return the digests of the caps."""
    return set(map(compute_digest, policies.caps))


def read_listed(store: MemoryRegistrationStore) -> set[str] | None:
    """Return the digests that the annotation lists; None without it."""
    listed = store.stored[VALIDATING]["metadata"]["annotations"].get("tallygate.dev/asked-policies")
    return None if listed is None else {pair.partition(":")[0] for pair in listed.split(",")} - {""}


def test_a_new_installation_asks_about_the_policies(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.policies = FIRST
    gate.register()
    assert "team-a" in read_condition(store)
    assert read_listed(store) == list_digests(FIRST)


def test_a_cap_is_asked_about_once_every_api_server_has_the_stored_registration(
    gate: Gate, store: MemoryRegistrationStore
) -> None:
    """Count from the first run that reads what the leader has written."""
    gate.policies = FIRST
    gate.register()
    gate.run(5)
    gate.run(PROPAGATION_SECONDS)
    gate.policies = BOTH
    first, second = BOTH.caps
    for is_listed, is_asked in ((False, False), (False, False), (True, False), (True, False), (True, True)):
        assert gate.asked.is_asked(first)
        assert gate.asked.is_asked(second) is is_asked
        assert gate.asked.list_waiting() == (() if is_listed else ("b",))
        gate.run(PROPAGATION_SECONDS / 2)
        assert "team-b" in read_condition(store)


def test_a_cap_that_was_dropped_and_added_again_begins_again(gate: Gate, store: MemoryRegistrationStore) -> None:
    """Notice it by the number, although each read shows the digest."""
    gate.policies = FIRST
    gate.register()
    gate.run(5)
    gate.run(PROPAGATION_SECONDS)
    (cap,) = FIRST.caps
    assert gate.asked.is_asked(cap)
    for stored in store.stored.values():
        annotations = stored["metadata"]["annotations"]
        digest, _, number = annotations["tallygate.dev/asked-policies"].partition(":")
        annotations["tallygate.dev/asked-policies"] = f"{digest}:{int(number) + 2}"
    gate.asked.read_again()
    assert not gate.asked.is_asked(cap)
    gate.run(PROPAGATION_SECONDS)
    assert gate.asked.is_asked(cap)


def test_a_standby_replica_follows_the_stored_registration(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.policies = FIRST
    gate.register()
    gate.is_leader = False
    gate.policies = BOTH
    details = gate.run(5)
    assert details["waitingPolicies"] == ["b"]
    assert read_listed(store) == list_digests(FIRST)


def test_what_is_dropped_is_asked_about_for_two_minutes(gate: Gate, store: MemoryRegistrationStore) -> None:
    """Keep the conditions and the digest, and add the new ones at once."""
    gate.policies = FIRST
    gate.register()
    gate.policies = SECOND
    gate.run(5)
    for _ in range(3):
        condition = read_condition(store)
        assert "team-a" in condition
        assert "team-b" in condition
        assert read_listed(store) == list_digests(BOTH)
        gate.run(30)
    gate.run(40)
    assert "team-a" not in read_condition(store)
    assert read_listed(store) == list_digests(SECOND)


def test_a_selector_that_is_dropped_has_a_webhook_for_two_minutes(gate: Gate, store: MemoryRegistrationStore) -> None:
    """Register a webhook for the labels of a cap, and go on by name only after that."""
    gate.policies = LABELLED
    gate.register()
    assert "labels-1.validate.tallygate.dev" in store.list_names()[1]
    assert read_condition(store) == "false"
    bundles = {each["clientConfig"]["caBundle"] for each in store.stored[VALIDATING]["webhooks"]}
    assert len(bundles) == 1
    gate.policies = FIRST
    for seconds in (5, 30, 60):
        gate.run(seconds)
        assert "labels-1.validate.tallygate.dev" in store.list_names()[1]
        assert "team-a" in read_condition(store)
    generation = store.stored[VALIDATING]["metadata"]["generation"]
    gate.run(5)
    assert store.stored[VALIDATING]["metadata"]["generation"] == generation
    gate.run(40)
    assert "labels-1.validate.tallygate.dev" not in store.list_names()[1]
    assert read_listed(store) == list_digests(FIRST)


def test_a_cap_whose_selector_changes_is_asked_about_again(gate: Gate) -> None:
    """Take the cap for another one, so that it counts the other namespaces only after every API server asks."""
    gate.policies = LABELLED
    gate.register()
    gate.run(5)
    gate.run(PROPAGATION_SECONDS)
    (cap,) = LABELLED.caps
    assert gate.asked.is_asked(cap)
    gate.policies = parse_policies(BY_LABEL % ("gold", "silver"))
    (cap,) = gate.policies.caps
    assert not gate.asked.is_asked(cap)
    gate.run(5)
    gate.run(5)
    assert gate.asked.find_asked_since(cap) == gate.seconds + PROPAGATION_SECONDS


def test_a_dropped_cap_stays_while_the_record_has_it(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.policies = FIRST
    gate.register()
    gate.policies, gate.has_foreign_record = SECOND, True
    gate.run(5)
    gate.run(500)
    assert read_listed(store) == list_digests(BOTH)
    gate.has_foreign_record = False
    gate.run(5)
    assert read_listed(store) == list_digests(SECOND)


def test_a_policy_that_returns_meanwhile_stays(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.policies = FIRST
    gate.register()
    gate.policies = SECOND
    gate.run(5)
    gate.policies = FIRST
    gate.run(60)
    gate.run(130)
    assert read_listed(store) == list_digests(FIRST)
    assert "team-a" in read_condition(store)


def test_an_earlier_version_that_asks_about_everything_is_narrowed_late(
    gate: Gate, store: MemoryRegistrationStore
) -> None:
    gate.policies = FIRST
    gate.register()
    for stored in store.stored.values():
        del stored["metadata"]["annotations"]["tallygate.dev/asked-policies"]
        for webhook in stored["webhooks"]:
            conditions = webhook.get("matchConditions", [])
            webhook["matchConditions"] = [each for each in conditions if each["name"] != "a-policy-may-decide"]
    gate.run(5)
    assert read_condition(store) == ""
    assert read_listed(store) is None
    assert gate.asked.list_waiting() == ()
    assert gate.asked.is_asked(FIRST.caps[0])
    gate.run(121)
    assert "team-a" in read_condition(store)
    assert read_listed(store) == list_digests(FIRST)


def test_before_the_first_read_nothing_is_asked_about(gate: Gate) -> None:
    gate.policies = BOTH
    assert gate.asked.list_waiting() == ("a", "b")


def test_a_gate_that_was_not_registered_for_long_waits_after_its_registration(gate: Gate) -> None:
    """Wait in vain for a ready replica: meanwhile no API server asks."""
    gate.policies, gate.unready = FIRST, ["informers"]
    (cap,) = FIRST.caps
    for _ in range(10):
        assert gate.run(60)["waitingPolicies"] == ["a"]
        assert gate.asked.find_asked_since(cap) is None
    gate.unready = ()
    gate.register()
    assert not gate.asked.is_asked(cap)
    gate.run(5)
    assert gate.asked.find_asked_since(cap) == gate.seconds + PROPAGATION_SECONDS
    gate.run(PROPAGATION_SECONDS - 1)
    assert not gate.asked.is_asked(cap)
    gate.run(1)
    assert gate.asked.is_asked(cap)


def test_a_replica_that_reads_no_empty_configuration_waits_too(gate: Gate, store: MemoryRegistrationStore) -> None:
    """Read nothing for a long time, and then what another replica has written."""
    gate.policies = FIRST
    gate.register()
    stored, store.stored = store.stored, {}
    (cap,) = FIRST.caps
    gate.run(5)
    gate.run(600)
    assert gate.asked.is_asked(cap)
    gate.is_leader, store.stored = False, stored
    gate.run(5)
    assert gate.asked.find_asked_since(cap) == gate.seconds + PROPAGATION_SECONDS


@pytest.mark.parametrize("emptied", [(MUTATING,), (VALIDATING,), (MUTATING, VALIDATING)])
def test_a_cap_whose_webhooks_were_removed_begins_again(
    gate: Gate, store: MemoryRegistrationStore, emptied: tuple[str, ...]
) -> None:
    """Keep the annotation, as a user does who removes the webhooks, and notice it with and without a read between."""
    gate.policies = FIRST
    gate.register()
    gate.run(5)
    gate.run(PROPAGATION_SECONDS)
    (cap,) = FIRST.caps
    standby = Gate(gate.folder, store)
    standby.policies, standby.is_leader = FIRST, False
    standby.run()
    standby.run(PROPAGATION_SECONDS)
    assert gate.asked.is_asked(cap)
    assert standby.asked.is_asked(cap)
    for kind in emptied:
        store.stored[kind]["webhooks"] = []
        store.stored[kind]["metadata"]["generation"] += 1
    gate.asked.read_again()
    assert gate.asked.find_asked_since(cap) is None
    gate.run(5)
    for each in (gate, standby):
        each.run(5)
        assert each.asked.find_asked_since(cap) == each.seconds + PROPAGATION_SECONDS


def test_a_cap_that_only_one_of_both_had_with_a_larger_number_begins_again(
    gate: Gate, store: MemoryRegistrationStore
) -> None:
    """Write a smaller number than that of the other configuration."""
    gate.policies = FIRST
    store.stored[MUTATING]["metadata"]["generation"] = 9
    gate.register()
    gate.run(5)
    gate.run(PROPAGATION_SECONDS)
    (cap,) = FIRST.caps
    assert gate.asked.is_asked(cap)
    digest = compute_digest(cap)
    assert store.stored[MUTATING]["metadata"]["annotations"]["tallygate.dev/asked-policies"] == f"{digest}:10"
    store.stored[VALIDATING]["metadata"]["annotations"]["tallygate.dev/asked-policies"] = f"{digest}:4"
    gate.asked.read_again()
    assert not gate.asked.is_asked(cap)


def test_what_was_listed_without_webhooks_is_not_listed_again(gate: Gate, store: MemoryRegistrationStore) -> None:
    """List only what the new webhooks ask about, and not what the removed ones did."""
    gate.policies = FIRST
    gate.register()
    for stored in store.stored.values():
        stored["webhooks"] = []
    gate.policies, gate.has_foreign_record = SECOND, True
    gate.run(5)
    assert "team-a" not in read_condition(store)
    assert read_listed(store) == list_digests(SECOND)
