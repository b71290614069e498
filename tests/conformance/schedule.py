"""Schedule: a cluster put to a real API server and scheduler, a new pod, and what came of it."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from tests.accounting.scheduling.deciding import decided
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


Answering = Callable[[Objects, Objects, Objects, dict[str, Any]], Said]
"""An implementation: given nodes, bound pods, all other objects and the new pod."""


def compare(case: Case) -> Outcome:
    """Compare the product's answer.

    Where the product names something that it does not judge, it still says for certain that a pod fits nowhere.
    """
    said = decided(*_parts(case))
    if not said.unknown:
        return Outcome(tuple(_differences(case, said)))
    wrong = case["result"]["scheduled"] and not said.nodes
    differences = (f"scheduled: Kubernetes True, tallygate False, not judged: {said.unknown}",) if wrong else ()
    return Outcome(differences, is_judged=False)


def comparing(answering: Answering) -> Callable[[Case], Outcome]:
    """Compare another implementation, which judges everything."""
    return lambda case: Outcome(tuple(_differences(case, answering(*_parts(case)))))


def _parts(case: Case) -> tuple[Objects, Objects, Objects, dict[str, Any]]:
    return case["nodes"] or [], case["pods"] or [], case.get("objects") or [], case["pod"]


def _differences(case: Case, said: Said) -> list[str]:
    """Every part in which they differ, in a sentence.

    Where the case names all choices of the scheduler, they are compared exactly. Where it does not, the node that was
    chosen must be among ours, of which there are as many as the case says, if it does. (The scheduler looks at all of
    fewer than 100 nodes.)
    """
    result, choices = case["result"], case.get("choices")
    fitting, nominated = sorted(said.nodes), sorted(said.nominated)
    both, message = result["scheduled"] and bool(fitting), result["message"]
    differences = {
        f"scheduled: Kubernetes {result['scheduled']}, tallygate {bool(fitting)}": result["scheduled"] != bool(fitting),
        f"message: Kubernetes {message!r}, tallygate {said.message!r}": message != said.message,
    }
    if choices is not None:
        nodes, candidates = choices["nodes"], choices["nominated"]
        differences |= {
            f"node: Kubernetes one of {nodes}, tallygate one of {fitting}": both and nodes != fitting,
            f"nominated: Kubernetes one of {candidates}, tallygate one of {nominated}": candidates != nominated,
        }
    else:
        chosen, count = result.get("nominated", ""), result.get("feasible", len(fitting))
        differences |= {
            f"node: Kubernetes {result['node']}, tallygate one of {fitting}": both and result["node"] not in fitting,
            f"feasible: Kubernetes {count} nodes, tallygate {fitting}": both and count != len(fitting),
            f"nominated: Kubernetes {chosen!r}, tallygate one of {nominated}": chosen not in (nominated or [""]),
        }
    return [sentence for sentence, differs in differences.items() if differs]
