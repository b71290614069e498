"""Schedule: a cluster put to a real API server and scheduler, a new pod, and what came of it."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from tests.conformance.case import Case, Outcome

Objects = Sequence[dict[str, Any]]


class Said(Protocol):
    """What an implementation says of a new pod."""

    @property
    def nodes(self) -> Collection[str]:
        """The nodes that fit, one of which is chosen."""

    @property
    def nominated(self) -> Collection[str]:
        """The nodes of which one is nominated, its pods having to go."""

    @property
    def message(self) -> str:
        """The message of the condition PodScheduled, empty where there is none."""


_DEVICES = ("DeviceClass", "ResourceClaim")

Answering = Callable[[Objects, Objects, Objects, dict[str, Any]], Said]
"""An implementation: given nodes, bound pods, all other objects and the new pod."""


def comparing(answering: Answering) -> Callable[[Case], Outcome]:
    """Compare this one: the verdict, the chosen and the nominated node among its own, the message exactly.

    Where the case says how many nodes were feasible, that number too; the scheduler looks at all of fewer than 100.
    """

    def compare(case: Case) -> Outcome:
        said = answering(case["nodes"] or [], case["pods"] or [], case.get("objects") or [], case["pod"])
        return Outcome(tuple(_differences(case["result"], said)))

    return compare


def unless_devices(answering: Answering, otherwise: Answering) -> Answering:
    """An implementation that leaves pods that ask for devices, by claim or by class, to another.

    The product names them as not judged, so that there is nothing to compare.
    """

    def answer(nodes: Objects, pods: Objects, others: Objects, pod: dict[str, Any]) -> Said:
        has_devices = any(each.get("kind") in _DEVICES for each in others)
        asks = bool((pod.get("spec") or {}).get("resourceClaims"))
        return (otherwise if has_devices or asks else answering)(nodes, pods, others, pod)

    return answer


def _differences(result: dict[str, Any], said: Said) -> list[str]:
    """Every part in which they differ, in a sentence."""
    nominated, ours = result.get("nominated", ""), sorted(said.nodes)
    both = result["scheduled"] and bool(said.nodes)
    differences = {
        f"scheduled: Kubernetes {result['scheduled']}, tallygate {bool(ours)}": result["scheduled"] != bool(ours),
        f"node: Kubernetes {result['node']}, tallygate one of {ours}": both and result["node"] not in ours,
        f"feasible: Kubernetes {result.get('feasible')} nodes, tallygate {ours}": both
        and result.get("feasible", len(ours)) != len(ours),
        f"nominated: Kubernetes {nominated!r}, tallygate one of {sorted(said.nominated)}": not _is_among(
            nominated, said.nominated
        ),
        f"message: Kubernetes {result['message']!r}, tallygate {said.message!r}": result["message"] != said.message,
    }
    return [sentence for sentence, differs in differences.items() if differs]


def _is_among(name: str, names: Collection[str]) -> bool:
    """Whether a node is one of those; no node is right where there are none."""
    return name in names if names else not name
