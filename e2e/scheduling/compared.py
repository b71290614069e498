"""An implementation's answers beside the scheduler's, and where they differ."""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Protocol

from e2e.scheduling.api import Object
from e2e.scheduling.asked import Asked


class Answer(Protocol):
    """What an implementation says of one attempt."""

    @property
    def nodes(self) -> AbstractSet[str]:
        """Those that the pod fits on, of which the scheduler takes one."""
        ...

    @property
    def nominated(self) -> AbstractSet[str]:
        """Those of which the scheduler makes room on one."""
        ...

    @property
    def message(self) -> str:
        """That of the condition PodScheduled; empty when the pod is placed."""
        ...


Answering = Callable[[list[Object], list[Object], list[Object], Object], Answer]
"""Nodes, pods, all other objects and the pod, to an answer."""


def differences(asked: Asked, answering: Answering) -> Iterator[str]:
    """Where the scheduler said something else; a line each."""
    said = asked.result
    try:
        answer = answering(asked.nodes, asked.pods, asked.objects, asked.pod)
    except Exception as error:  # noqa: BLE001  whatever it fails with, it did not answer, and the next case is asked
        yield f"no answer: {error!r}"
        return
    if said.scheduled and said.node not in answer.nodes:
        yield f"placed on {said.node}, answered: {sorted(answer.nodes) or 'nowhere'}"
    if said.feasible is not None and said.feasible != len(answer.nodes):
        yield f"{said.feasible} nodes would have done, answered: {sorted(answer.nodes) or 'none'}"
    if not said.scheduled and answer.nodes:
        yield f"not placed, answered: {sorted(answer.nodes)}"
    if said.message != answer.message:
        yield f"said:     {said.message}\n  answered: {answer.message}"
    if said.nominated not in (answer.nominated or {""}):
        yield f"room made on {said.nominated or 'no node'}, answered: {sorted(answer.nominated) or 'none'}"
