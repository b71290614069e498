"""Likeness: what the lists of resources in a pod spec say, as one value that is equal for pods that say the same.

Most pods are made from some template, so what was found of one holds of the next thousand. To see that a list was read
before takes a tenth of what it takes to read it.
"""

from typing import Generic, TypeVar

from webhook.objects.core import Container, PodSpec

T = TypeVar("T")

Fingerprint = tuple[object, ...]
"""Every quantity and name as it was written, and which container writes it."""

_MAX_ENTRIES = 512
_MAX_FINGERPRINT_LENGTH = 4096  # characters; a pod with three containers has some three hundred


def compute_fingerprint(spec: PodSpec) -> Fingerprint | None:
    """What the lists of a spec say.

    None for what few pods have: ephemeral containers, an overhead, resources of the pod as a whole.
    """
    if spec.ephemeral_containers or spec.overhead or spec.resources is not None:
        return None
    init = spec.init_containers
    return (
        tuple([_fingerprint_container(each) for each in spec.containers or ()]),
        tuple([_fingerprint_container(each) for each in init]) if init else (),
    )


class FingerprintCache(Generic[T]):
    """What was found of pods, within bounds: some hundred ways of asking, none of them very long."""

    def __init__(self) -> None:
        self._values: dict[Fingerprint, T] = {}
        self.get = self._values.get
        """What was found of a likeness; None when nothing was, or it is not remembered."""

    def put(self, fingerprint: Fingerprint, value: T) -> None:
        """Remember what was found of a likeness, if that is not too long."""
        if _measure_length(fingerprint) > _MAX_FINGERPRINT_LENGTH:
            return
        if len(self._values) >= _MAX_ENTRIES:
            self._values.clear()
        self._values[fingerprint] = value


def _fingerprint_container(container: Container) -> Fingerprint:
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


def _measure_length(part: object) -> int:
    if isinstance(part, tuple):
        return sum(map(_measure_length, part)) + 1
    return len(part) if isinstance(part, str | bytes) else 1
