"""Likeness: what the lists of resources in a pod spec say, as one value that is equal for pods that say the same.

Most pods are made from some template, so what was found of one holds of the next thousand. To see that a list was read
before takes a tenth of what it takes to read it.
"""

from typing import Generic, TypeVar

from webhook.objects.pods import Container, PodSpec

T = TypeVar("T")

Likeness = tuple[object, ...]
"""Every quantity and name as it was written, and which container writes it."""

_MOST_REMEMBERED = 512
_LONGEST_REMEMBERED = 4096  # characters; a pod with three containers has some three hundred


def likeness(spec: PodSpec) -> Likeness | None:
    """What the lists of a spec say.

    None for what few pods have: ephemeral containers, an overhead, resources of the pod as a whole.
    """
    if spec.ephemeral_containers or spec.overhead or spec.resources is not None:
        return None
    init = spec.init_containers
    return (
        tuple([_said(each) for each in spec.containers or ()]),
        tuple([_said(each) for each in init]) if init else (),
    )


class ByLikeness(Generic[T]):
    """What was found of pods, within bounds: some hundred ways of asking, none of them very long."""

    def __init__(self) -> None:
        self._found: dict[Likeness, T] = {}
        self.get = self._found.get
        """What was found of a likeness; None when nothing was, or it is not remembered."""

    def put(self, alike: Likeness, found: T) -> None:
        """Remember what was found of a likeness, if that is not too long."""
        if _length(alike) > _LONGEST_REMEMBERED:
            return
        if len(self._found) >= _MOST_REMEMBERED:
            self._found.clear()
        self._found[alike] = found


def _said(container: Container) -> Likeness:
    resources = container.resources
    if resources is None:
        return (container.name, container.restart_policy)  # a sidecar may have to have a limit
    requests, limits = resources.requests or {}, resources.limits or {}
    return (
        container.name,
        container.restart_policy,
        *requests,
        *map(bytes, requests.values()),
        None,
        *limits,
        *map(bytes, limits.values()),
    )


def _length(said: object) -> int:
    if isinstance(said, tuple):
        return sum(map(_length, said)) + 1
    return len(said) if isinstance(said, str | bytes) else 1
