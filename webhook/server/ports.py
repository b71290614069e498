"""What the server asks of the gate and of the parts it reports on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from webhook.admission.change import Phase


class Record(Protocol):
    """What one decision was, for logs and metrics: names and codes, never the object."""

    @property
    def uid(self) -> str:
        """The review's."""
        ...

    @property
    def user(self) -> str:
        """Who asked."""
        ...

    @property
    def operation(self) -> str:
        """`CREATE`, `UPDATE` and so on."""
        ...

    @property
    def kind(self) -> str:
        """The object's kind."""
        ...

    @property
    def namespace(self) -> str:
        """The object's namespace, empty for cluster-scoped ones."""
        ...

    @property
    def name(self) -> str:
        """The object's name, or what stands for it."""
        ...

    @property
    def verdict(self) -> str:
        """`allow`, `deny` or `busy`."""
        ...

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of all problems that deny."""
        ...


class Answer(Protocol):
    """Bytes to send, and what they say."""

    @property
    def body(self) -> bytes:
        """A JSON AdmissionReview."""
        ...

    @property
    def record(self) -> Record:
        """What was decided."""
        ...


class Gate(Protocol):
    """The one use case, as the web sees it."""

    def admit(self, body: bytes, phase: Phase, deadline: float) -> Answer:
        """Answer a review before `deadline` (monotonic seconds).

        Raises:
            webhook.admission.review.ReviewError: the body is no review.
            webhook.errors.TallygateError: it could not be decided.
        """
        ...


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be so for the gate to be ready, with what there is to say about it."""

    name: str
    ready: bool
    detail: Mapping[str, Any] = field(default_factory=dict)


Readiness = Callable[[], Check]
"""Asks for the state of one thing, now; quick, and never raises."""
