"""framework/plugins/nodeaffinity/node_affinity.go."""

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.node_selectors import matches_required, read_required_terms
from tests.accounting.scheduling.reference.objects import Json, get_spec
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, unresolvable


class NodeAffinity(Plugin):
    """The node selector and the required node affinity; a node must match both."""

    name = "NodeAffinity"

    def pre_filter(self, _cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """Implement NodeAffinity.PreFilter: return the nodes that every term names."""
        terms = read_required_terms(pod.pod)
        if terms is None and not get_spec(pod.pod).get("nodeSelector"):
            return None, SKIP
        named = [_read_names(each) for each in terms or []]
        names: set[str] = set()
        for each in named:
            if each is None:
                return None, SUCCESS
            names |= each
        if named and not names:
            return None, unresolvable("pod affinity terms conflict")
        return names or None, SUCCESS

    def filter(self, _cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Implement NodeAffinity.Filter."""
        if matches_required(pod.pod, node.node):
            return SUCCESS
        return unresolvable("node(s) didn't match Pod's node affinity/selector")


def _read_names(term: Json) -> set[str] | None:
    """Return the names that all of a term's fields allow; None when it has no field of names."""
    names: set[str] | None = None
    for each in term.get("matchFields") or []:
        if each["key"] == "metadata.name" and each["operator"] == "In":
            values = set(each.get("values") or [])
            names = values if names is None else names & values
    return names
