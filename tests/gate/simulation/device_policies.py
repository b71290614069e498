"""The caps of a world: those of pods alone, and those of pods, claims and devices."""

from collections.abc import Mapping
from typing import NamedTuple

from tallygate.accounting.claim_charge import NO_CLASSES
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.cap_sources import CapSources
from tallygate.admission.capacity_limits import NO_CAPACITIES, CapCapacities
from tallygate.policy.model import PolicySet
from tests.accounting.claims import CLASS
from tests.admission.case import parse_policies
from tests.state.informers.pods import GPU
from tests.state.informers.slices import DRIVER

MAPPED, ELSEWHERE, MISSING = "mapped", "elsewhere", "missing"
"""The states of the class of claims: it leads to the counted resource, or to another one, or does not exist."""
_RESOURCES_BY_STATE: Mapping[str, Mapping[str, str]] = {
    MAPPED: {CLASS: GPU},
    ELSEWHERE: {CLASS: "example.com/elsewhere"},
    MISSING: {},
}
H100, MEMORY = "h100", "gpu-memory"
_EACH, _TOGETHER = 4, 9
CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: {name}}}
spec:
  namespaces: {{include: ["team-*"], selector: {{matchLabels: {{{name}: "yes"}}}}}}
  shared: {shared}
  hard: {{nvidia.com/gpu: {hard}}}
"""
"""A cap that selects namespaces by a label of its name."""
_CAP_OF_EACH = CAP.format(name="each", shared="false", hard=_EACH)
_SHARED_CAP = CAP.format(name="together", shared="true", hard=_TOGETHER)
_GROUPED_CAP = f"""
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: together}}
spec:
  namespaces: {{include: ["team-*"]}}
  groupBy: {{label: together}}
  hard: {{nvidia.com/gpu: {_EACH}}}
"""
_SELECTOR = f"""device.attributes["{DRIVER}"].model == "{H100}\""""
_DEVICES_OF_EACH = CAP.format(name="each", shared="false", hard=f"{_EACH}, {H100}: 2") + (
    f"  devices: {{{H100}: {{selector: '{_SELECTOR}'}}}}\n"
)
_SHARED_DEVICES = CAP.format(name="together", shared="true", hard=f"{_TOGETHER}, {MEMORY}: 8") + (
    f"  devices: {{{MEMORY}: {{sum: memory}}}}\n"
)


class PolicyVersion(NamedTuple):
    """A version of the policies, with its caps and their limits after the ends of all overrides.

    `caps_by_state` has the caps by the state of the class, where that changes.
    """

    documents: PolicySet
    caps: CapIndex
    caps_by_state: Mapping[str, CapIndex] = {}

    def with_states(self) -> "PolicyVersion":
        """Return the version for each state of the class."""
        states = {
            state: CapIndex(self.documents, None, CapSources(resources))
            for state, resources in _RESOURCES_BY_STATE.items()
        }
        return self._replace(caps=states[MAPPED], caps_by_state=states)


class Policies(NamedTuple):
    """A cap of each namespace and one that all share, and another version: the first alone, or larger surges of both.

    Each selects namespaces by a label of its name. With `has_claims` there are claims, and both caps count them. With
    `has_reviews` whole reviews are decided by the gate; else replicas charge by themselves. With `has_classes` the
    class of the claims comes, goes and leads elsewhere.
    """

    first: PolicyVersion
    other: PolicyVersion
    has_claims: bool = False
    has_reviews: bool = False
    has_classes: bool = False
    are_new: bool = False
    """Whether the caps of the first version are new: the world starts with the other version, and without ledgers."""
    follow_capacity: bool = False
    """Whether the limits are percentages of the GPUs of nodes, which come and go."""
    have_groups: bool = False
    """Whether there are PodGroups, whose reservations end late."""
    are_registered: bool = False
    """Whether API servers ask about a cap only once the registration covers it."""


def create_version(
    text: str, resources_by_class: Mapping[str, str] = NO_CLASSES, capacities: CapCapacities = NO_CAPACITIES
) -> PolicyVersion:
    """Return the version of the policies in a text, with the limits by these capacities."""
    documents = parse_policies(text)
    return PolicyVersion(documents, CapIndex(documents, None, CapSources(resources_by_class, capacities=capacities)))


def _index(cap_of_each: str, shared_cap: str, resources_by_class: Mapping[str, str]) -> Policies:
    both, alone = (create_version(text, resources_by_class) for text in (f"{cap_of_each}---{shared_cap}", cap_of_each))
    return Policies(both, alone, has_claims=bool(resources_by_class))


def list_ledger_caps(caps: CapIndex) -> tuple[ActiveCap, ...]:
    """Return every cap that may have ledgers, with both groups of a cap that has groups."""
    return caps.list_ledger_caps(("team-a", {"together": value}) for value in ("yes", "no"))


PODS_ONLY = _index(_CAP_OF_EACH, _SHARED_CAP, {})
NEW_CAPS = Policies(PODS_ONLY.first, create_version(CAP.format(name="other", shared="false", hard=_EACH)), are_new=True)
"""The caps are loaded by one replica after the other, and count first."""
REGISTERED = NEW_CAPS._replace(are_registered=True)
"""The same, and API servers ask about a cap only once the registration covers it."""
_GUARANTEE = """  guarantee:
  - {namespaces: [team-a], amounts: {nvidia.com/gpu: 4}}
  - {namespaces: ["team-*"], amounts: {nvidia.com/gpu: 23%}}
"""
GUARANTEES = Policies(
    create_version(f"{_CAP_OF_EACH}---{_SHARED_CAP}{_GUARANTEE}"), create_version(f"{_CAP_OF_EACH}---{_SHARED_CAP}")
)
"""The shared cap has guarantees, and in the other version none."""
GROUPS = _index(_CAP_OF_EACH, _GROUPED_CAP, {})
"""Each value of a label has a shared ledger: namespaces move between them."""
_WHOLE = "  admit: whole\n"
GANGS = _index(_CAP_OF_EACH + _WHOLE, _SHARED_CAP + _WHOLE, {})
POD_GROUPS = GANGS._replace(has_reviews=True, have_groups=True)
GANG_GROUPS = _index(_CAP_OF_EACH + _WHOLE, _GROUPED_CAP + _WHOLE, {})
"""Workloads are admitted as a whole, in the latter under a cap with groups."""
WITH_CLAIMS = _index(_CAP_OF_EACH, _SHARED_CAP, {CLASS: GPU})
WITH_CLASSES = Policies(
    WITH_CLAIMS.first.with_states(), WITH_CLAIMS.other.with_states(), has_claims=True, has_classes=True
)
"""The class of the claims changes."""
WITH_DEVICES = _index(_DEVICES_OF_EACH, _SHARED_DEVICES, {CLASS: GPU})
"""The first cap also counts the devices of a model, the second one the memory of devices."""
