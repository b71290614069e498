"""Caches for results that repeat: by a short text, and by the fingerprint of a pod spec.

Names and quantities repeat from request to request. Most pods are made from a template, so a result for one pod applies
to the next thousand: a fingerprint is one value that is equal for pods with equal resource lists, and a comparison of
fingerprints takes a tenth of the time that parsing takes. Every cache is limited in number and in length, so that no
user can fill the memory with names of a megabyte.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Generic, TypeVar, TypeVarTuple

from tallygate.objects.core import Container, PodSpec

T = TypeVar("T")

Fingerprint = tuple[object, ...]
"""Every quantity and name as it was written, by container."""

_MAX_ENTRIES = 512
_MAX_FINGERPRINT_LENGTH = 4096  # characters; a pod with three containers has some three hundred


def compute_fingerprint(spec: PodSpec) -> Fingerprint | None:
    """Return the fingerprint of the resource lists of a spec.

    Return None for a spec with rare fields: ephemeral containers, an overhead, or resources at pod level.
    """
    if spec.ephemeral_containers or spec.overhead or spec.resources is not None:
        return None
    init = spec.init_containers
    return (
        tuple([_fingerprint_container(container) for container in spec.containers or ()]),
        tuple([_fingerprint_container(container) for container in init]) if init else (),
    )


class FingerprintCache(Generic[T]):
    """Results by fingerprint, limited in number (some hundred) and in the length of each fingerprint."""

    def __init__(self) -> None:
        self._values: dict[Fingerprint, T] = {}
        self.get = self._values.get
        """Return the result of a fingerprint, or None if none is remembered."""

    def put(self, fingerprint: Fingerprint, value: T) -> None:
        """Remember the result of a fingerprint, unless the fingerprint is too long."""
        if _measure_length(fingerprint) > _MAX_FINGERPRINT_LENGTH:
            return
        if len(self._values) >= _MAX_ENTRIES:
            self._values.clear()
        self._values[fingerprint] = value


def _fingerprint_container(container: Container) -> Fingerprint:
    resources = container.resources
    if resources is None:
        return (container.name, container.restart_policy)  # a rule may require a limit of a sidecar
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
        if len(part) > _MAX_FINGERPRINT_LENGTH:
            return len(part)
        return sum(map(_measure_length, part)) + 1
    return len(part) if isinstance(part, str | bytes) else 1


MAX_TEXT_LENGTH = 320
"""The longest text that is remembered: 253 bytes of domain and 63 of name, and a margin."""

MAX_RESULTS = 4096
"""The number of results that are remembered for each function."""

_Text = TypeVar("_Text", str, bytes)
_Rest = TypeVarTuple("_Rest")
_Result = TypeVar("_Result")


def memoize(function: Callable[[_Text, *_Rest], _Result]) -> Callable[[_Text, *_Rest], _Result]:
    """Decorate a pure function whose first argument is a text and whose other arguments have few values."""
    cached = lru_cache(maxsize=MAX_RESULTS)(function)

    @wraps(function)
    def call(text: _Text, *rest: *_Rest) -> _Result:
        return function(text, *rest) if len(text) > MAX_TEXT_LENGTH else cached(text, *rest)

    return call


@memoize
def share_text(text: str) -> str:
    """Return the text that stands for all equal ones: the labels and times of 100,000 pods repeat."""
    return text
