"""Schedule: a cluster in a real API server and scheduler, a new pod, and the result."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Protocol

from tallygate.accounting.kubernetes_versions.version import KubernetesVersion, parse_minor, select_version
from tests.accounting.scheduling.product_scheduler import (
    create_full_cluster,
    decide,
    find_device_differences,
    mask_placement,
)
from tests.conformance.case import Case, Outcome

Objects = Sequence[dict[str, Any]]


class ScheduleAnswer(Protocol):
    """The answer of an implementation for a new pod."""

    @property
    def nodes(self) -> Collection[str]:
        """The nodes that fit, one of which is chosen."""

    @property
    def nominated(self) -> Collection[str]:
        """The nodes one of which is nominated, with victims."""

    @property
    def message(self) -> str:
        """The message of the condition PodScheduled, empty without the condition."""


Scheduler = Callable[[Objects, Objects, Objects, dict[str, Any]], ScheduleAnswer]
"""An implementation: it takes nodes, bound pods, all other objects and the new pod."""


def compare(case: Case) -> Outcome:
    """Compare the product's answer.

    Where the product names a feature that it does not model, its answer is still certain for a pod that fits nowhere.
    Of several nodes with the highest score the scheduler chooses any: it may be one on which the binding fails.
    """
    version = select_version(parse_minor(case.get("kubernetes", "1.36")))
    answer = decide(*_parts(case), version=version)
    if not answer.unknown and case["result"]["message"] in answer.bind_errors.values():
        return Outcome(())
    if not answer.unknown:
        return Outcome((*_differences(case, answer), *_find_device_differences(case, answer, version)))
    wrong = case["result"]["scheduled"] and not answer.nodes
    differences = (f"scheduled: Kubernetes True, tallygate False, not judged: {answer.unknown}",) if wrong else ()
    return Outcome(differences, is_judged=False)


def create_comparison(scheduler: Scheduler) -> Callable[[Case], Outcome]:
    """Return the comparison of another implementation, which models everything."""
    return lambda case: Outcome(tuple(_differences(case, scheduler(*_parts(case)))))


def _parts(case: Case) -> tuple[Objects, Objects, Objects, dict[str, Any]]:
    return case["nodes"] or [], case["pods"] or [], case.get("objects") or [], case["pod"]


def _find_device_differences(case: Case, answer: ScheduleAnswer, version: KubernetesVersion) -> Iterator[str]:
    """Yield a sentence for each claim to which the product allocates other devices on the node of the case."""
    result = case["result"]
    if result.get("claims") and result["node"] in answer.nodes:
        nodes, pods, others, pod = _parts(case)
        cluster = create_full_cluster(nodes, pods, others, version)
        yield from find_device_differences(cluster, pod, result["node"], result["claims"])


def _differences(case: Case, answer: ScheduleAnswer) -> list[str]:
    """Return a sentence for every part that differs.

    Where the case has all choices of the scheduler, they are compared exactly. Otherwise the chosen node must be one of
    ours, whose number must equal the case's, if it has one. (The scheduler evaluates all of fewer than 100 nodes.)
    """
    result, choices = case["result"], case.get("choices")
    feasible, nominated = sorted(answer.nodes), sorted(answer.nominated)
    both, message = result["scheduled"] and bool(feasible), result["message"]
    differences = {
        f"scheduled: Kubernetes {result['scheduled']}, tallygate {bool(feasible)}": result["scheduled"]
        != bool(feasible),
        f"message: Kubernetes {message!r}, tallygate {answer.message!r}": mask_placement(message)
        != mask_placement(answer.message),
    }
    if choices is not None:
        nodes, candidates = choices["nodes"], choices["nominated"]
        differences |= {
            f"node: Kubernetes one of {nodes}, tallygate one of {feasible}": both and nodes != feasible,
            f"nominated: Kubernetes one of {candidates}, tallygate one of {nominated}": candidates != nominated,
        }
    else:
        chosen, count = result.get("nominated", ""), result.get("feasible", len(feasible))
        differences |= {
            f"node: Kubernetes {result['node']}, tallygate one of {feasible}": both and result["node"] not in feasible,
            f"feasible: Kubernetes {count} nodes, tallygate {feasible}": both and count != len(feasible),
            f"nominated: Kubernetes {chosen!r}, tallygate one of {nominated}": chosen not in (nominated or [""]),
        }
    return [sentence for sentence, differs in differences.items() if differs]
