"""The kinds that are read without a policy."""

from tallygate.admission.kinds import BUILT_IN_TARGETS
from tallygate.policy.known_kinds import BUILT_IN_KINDS, KNOWN_KINDS


def test_the_kinds_of_kubernetes_are_those_that_are_reviewed() -> None:
    assert {(group, kind) for kind, group in BUILT_IN_KINDS.items()} == set(BUILT_IN_TARGETS)


def test_no_kind_is_known_twice() -> None:
    keys = [(each.group, each.kind) for each in KNOWN_KINDS]
    assert len(keys) == len(set(keys))
    assert not set(keys) & set(BUILT_IN_TARGETS)
