"""The differences between the results of an implementation and those of the scheduler."""

import random
import re
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, Protocol

from e2e.local.build import kubernetes_version
from e2e.scheduling.api import Object
from e2e.scheduling.recorded_case import RecordedCase
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.kubernetes_versions.version import parse_minor, select_version
from tests.accounting.scheduling.product_scheduler import (
    ProductAnswer,
    create_full_cluster,
    decide,
    find_device_differences,
    list_filter_errors,
)

_VICTIMS: Final = re.compile(r"preempting \d+ victims")
_ERRORS: Final = re.compile(r"(?<=preemption: \[).*(?=\]$)")
_ORDERS: Final = 30  # of which each is as likely, so that a second one is found


class Answer(Protocol):
    """The result of an implementation for one attempt."""

    @property
    def nodes(self) -> AbstractSet[str]:
        """Feasible nodes, of which the scheduler chooses one."""
        ...

    @property
    def nominated(self) -> AbstractSet[str]:
        """Nodes of which the scheduler nominates one."""
        ...

    @property
    def message(self) -> str:
        """Message of the condition PodScheduled; empty if the pod is placed."""
        ...


Implementation = Callable[[list[Object], list[Object], list[Object], Object], Answer]
"""Nodes, pods, all other objects and the pod, to a result."""


def decide_by_release(nodes: list[Object], pods: list[Object], objects: list[Object], pod: Object) -> ProductAnswer:
    """Return the product's result, by the rules of the release that the local control plane has."""
    return decide(nodes, pods, objects, pod, select_version(parse_minor(kubernetes_version())))


def _list_messages(answer: Answer) -> list[str]:
    """Return the message for each node that may be nominated: from Kubernetes 1.37 on it names the node."""
    named = next((f"on node {node}," for node in answer.nominated if f"on node {node}," in answer.message), "")
    if not named:
        return [answer.message]
    return [answer.message.replace(named, f"on node {node},") for node in answer.nominated]


def _list_messages_of_ties(case: RecordedCase, implementation: Implementation) -> Iterator[str]:
    """Yield the messages for other orders of the pods, in which the scheduler may have seen them.

    Among pods of one priority and start time the order in its cache decides which ones it evicts, and so their number,
    which the message has from Kubernetes 1.37 on.
    """
    if _VICTIMS.search(case.result.message):
        for seed in range(_ORDERS):
            pods = random.Random(seed).sample(case.pods, len(case.pods))  # noqa: S311  no secret
            yield from _list_messages(implementation(case.nodes, pods, case.objects, case.pod))


def _sort_errors(message: str) -> str:
    """Return a message with the errors of preemption in one order: it runs on several nodes at once."""
    return _ERRORS.sub(lambda found: "".join(sorted(f"{found[0]}, ".split('running "'))), message)


def _list_errors_of_nodes(case: RecordedCase) -> Iterator[str]:
    """Yield the errors of all nodes: filters run on several nodes at once, and the first error ends the attempt."""
    if case.result.message.startswith('running "'):
        yield from list_filter_errors(_create_cluster(case), case.pod)


def _fails_on_a_node(case: RecordedCase, answer: Answer, implementation: Implementation) -> bool:
    """Return whether the binding fails in this way on one of the nodes that the scheduler may choose."""
    if not case.result.message.startswith("running PreBind plugin "):
        return False
    if isinstance(answer, ProductAnswer) and _is_scored(case):
        return case.result.message in answer.bind_errors.values()
    return any(
        implementation([node], case.pods, case.objects, case.pod).message == case.result.message
        for node in case.nodes
        if node["metadata"]["name"] in answer.nodes
    )


def _is_scored(case: RecordedCase) -> bool:
    """Return whether resources and devices alone decide the scores: no pod has an affinity, no node a soft taint.

    From Kubernetes 1.37 on nodes have a score for the volumes of a pod, too.
    """
    return (
        "volumes" not in case.pod["spec"]
        and not any("affinity" in each["spec"] for each in (*case.pods, case.pod))
        and not any(
            taint["effect"] == "PreferNoSchedule" for node in case.nodes for taint in node["spec"].get("taints", ())
        )
    )


def _find_choice_differences(case: RecordedCase, answer: ProductAnswer) -> Iterator[str]:
    """Yield a line if the product excludes the chosen node, or the reason that keeps a pod out of the queue differs."""
    result = case.result
    if result.node in answer.nodes and _is_scored(case):
        if result.node not in answer.choices:
            yield f"chosen {result.node}, answered: one of {sorted(answer.choices)}"
        if result.node in answer.bind_errors:
            yield f"bound to {result.node}, answered: {answer.bind_errors[result.node]}"
    if result.hold_reason is not None and result.hold_reason != answer.hold_reason:
        yield f"kept out: {result.hold_reason}\n  answered: {answer.hold_reason}"


def _find_device_differences(case: RecordedCase) -> Iterator[str]:
    """Yield a line for each claim to which the product allocates other devices on the chosen node."""
    result = case.result
    if result.claims:
        yield from find_device_differences(_create_cluster(case), case.pod, result.node, result.claims)


def _create_cluster(case: RecordedCase) -> Cluster:
    version = select_version(parse_minor(kubernetes_version()))
    return create_full_cluster(case.nodes, case.pods, case.objects, version)


def find_differences(case: RecordedCase, implementation: Implementation) -> Iterator[str]:
    """Yield a line for each difference to the result of the scheduler."""
    result = case.result
    try:
        answer = implementation(case.nodes, case.pods, case.objects, case.pod)
    except Exception as error:  # noqa: BLE001  any error means no result, and the next case follows
        yield f"no answer: {error!r}"
        return
    if case.result.node in answer.nodes:
        yield from _find_device_differences(case)
    if isinstance(answer, ProductAnswer):
        yield from _find_choice_differences(case, answer)
    if _fails_on_a_node(case, answer, implementation):
        return
    if result.scheduled and result.node not in answer.nodes:
        yield f"placed on {result.node}, answered: {sorted(answer.nodes) or 'nowhere'}"
    if result.feasible is not None and result.feasible != len(answer.nodes):
        yield f"{result.feasible} feasible nodes, answered: {sorted(answer.nodes) or 'none'}"
    if not result.scheduled and answer.nodes:
        yield f"not placed, answered: {sorted(answer.nodes)}"
    messages = chain(_list_messages(answer), _list_messages_of_ties(case, implementation), _list_errors_of_nodes(case))
    if _sort_errors(result.message) not in map(_sort_errors, messages):
        yield f"scheduler: {result.message}\n  answered:   {answer.message}"
    if result.nominated not in (answer.nominated or {""}):
        yield f"nominated {result.nominated or 'no node'}, answered: {sorted(answer.nominated) or 'none'}"
