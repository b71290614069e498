"""The answers to asks over the live state: one at a time, within a deadline; few wait for their turn."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from http import HTTPStatus
from threading import BoundedSemaphore
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from tallygate.answers.answer_json import Redactor, VisibleNames, convert_answer, convert_headroom
from tallygate.answers.asked_headroom import PodCapacityError, TooManyRowsError, answer_headroom
from tallygate.answers.asked_manifests import AskContext, TooManyCopiesError, answer_manifests
from tallygate.answers.cap_overview import convert_caps, describe_caps
from tallygate.answers.live_hours import HoursQuestion, LiveHours
from tallygate.answers.namespace_list import NamespaceNames, list_namespaces
from tallygate.answers.namespace_usage import UsageContext, answer_usage
from tallygate.answers.namespace_usage_json import convert_usage
from tallygate.answers.node_overview import AskNodes, describe_nodes
from tallygate.cluster import kinds
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.refusal_events import NOTHING_REPORTED, ReportedRefusals
from tallygate.errors import TallygateError
from tallygate.manifests.kind_manifests import ManifestsError
from tallygate.manifests.manifest_objects import Manifest
from tallygate.policy.model import PolicySet
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.rate import create_busy_error

DEADLINE_SECONDS: Final = 10.0
"""The time of one ask, with that in which it waits for others."""

PART_SECONDS: Final = 0.1
"""The time in which further shapes of pods are placed, and further waiting pods predicted, for a usage: a prediction of
pods that would preempt others takes a second in a large cluster."""

MAX_WAITING: Final = 16
"""The asks that wait at a time; a further one is refused at once."""

_RETRY_AFTER_SECONDS: Final = 10
_MAX_MESSAGE_CHARACTERS: Final = 2000


class OpenedState(NamedTuple):
    """A state with columns that nothing else uses, and the time up to which it is known.

    `hours` are the hours of devices since its watches began.
    """

    state: ClusterState
    as_of: datetime
    hours: LiveHours

    @property
    def now(self) -> datetime:
        """The time at which the state is asked for."""
        return self.state.require_columns().now or self.as_of


OpenState = Callable[[float], AbstractContextManager[OpenedState]]
"""A function that yields the state within a number of seconds; it raises an AskError if it cannot."""


T = TypeVar("T")
R = TypeVar("R")

_Compute = Callable[[OpenedState, Callable[[], None]], T]
"""A function that returns a value over a state; it calls the other function between its parts."""

_Answer = dict[str, Any] | AskNodes | Callable[[], dict[str, Any]]
"""An answer, or what makes it without the state, so that others need not wait."""


class Answerer:
    """The answers over one state, for any thread; `monotonic` returns seconds.

    `read_reported` reads what a namespace reports about pods that are not stored.
    """

    def __init__(
        self,
        open_state: OpenState,
        get_policies: Callable[[], PolicySet],
        monotonic: Callable[[], float],
        read_reported: Callable[[str], ReportedRefusals] = lambda _: NOTHING_REPORTED,
    ) -> None:
        self._open_state = open_state
        self._get_policies = get_policies
        self._monotonic = monotonic
        self._read_reported = read_reported
        self._places = BoundedSemaphore(1 + MAX_WAITING)

    def answer(self, manifests: Sequence[Manifest], namespace: str, visible: VisibleNames) -> bytes:
        """Return the answer as JSON; `namespace` is that of objects that name none.

        Raises:
            AskError: with 413 for too many pods; with 429 if too many wait, or others take too long; with 503 if it
                takes too long, or the state is not usable.
        """

        def compute(opened: OpenedState, check_time: Callable[[], None]) -> dict[str, Any]:
            answer = answer_manifests(manifests, self._create_context(opened, namespace, check_time))
            return convert_answer(answer, opened.state, opened.as_of, visible)

        return self._answer(compute)

    def answer_headroom(self, manifests: Sequence[Manifest], namespace: str, visible: VisibleNames) -> bytes:
        """Return the numbers of further copies as JSON; `namespace` is that of objects that name none.

        Raises:
            AskError: with 400 for an object that no API server accepts; else as for an answer about manifests.
        """

        def compute(opened: OpenedState, check_time: Callable[[], None]) -> dict[str, Any]:
            try:
                answer = answer_headroom(manifests, self._create_context(opened, namespace, check_time))
            except (ManifestsError, PodCapacityError) as error:
                message = Redactor(opened.state, visible).hide_names(str(error))
                raise AskError(HTTPStatus.BAD_REQUEST, message[:_MAX_MESSAGE_CHARACTERS]) from None
            return convert_headroom(answer, opened.state, opened.as_of, visible)

        return self._answer(compute)

    def _create_context(self, opened: OpenedState, namespace: str, check_time: Callable[[], None]) -> AskContext:
        return AskContext(
            policies=self._get_policies(),
            state=opened.state,
            namespace=namespace,
            now=opened.now,
            check_time=check_time,
        )

    def answer_usage(self, namespace: str, visible: VisibleNames) -> bytes:
        """Return the usage of a namespace as JSON.

        Raises:
            AskError: with 404 if the namespace does not exist; else as for an answer about manifests.
        """
        reported = self._read_reported(namespace) if visible.shows(namespace) else NOTHING_REPORTED

        def compute(opened: OpenedState, check_time: Callable[[], None]) -> dict[str, Any]:
            if opened.state.namespaces.find(namespace) is None:
                raise AskError(HTTPStatus.NOT_FOUND, f"namespace {namespace} does not exist")
            context = UsageContext(
                policies=self._get_policies(),
                state=opened.state,
                namespace=namespace,
                now=opened.now,
                shows=visible.shows,
                reported=reported,
                check_time=check_time,
                start_part=self._start_part,
            )
            return convert_usage(answer_usage(context), opened.state, opened.as_of, visible)

        return self._answer(compute)

    def answer_hours(self, question: HoursQuestion) -> bytes:
        """Return the hours of devices as JSON, for someone who may list the pods of the namespace, or of all.

        Raises:
            AskError: as for an answer about manifests.
        """

        def compute(opened: OpenedState, check_time: Callable[[], None]) -> dict[str, Any]:
            as_of = int(opened.as_of.timestamp())
            return opened.hours.answer(question, as_of, opened.state.describe_problem(kinds.CLAIMS), check_time)

        return self._answer(compute)

    def answer_caps(self, most_lines: int | None = None) -> bytes:
        """Return all caps as JSON, for someone who may list all pods and namespaces, and the nodes.

        `most_lines` is the number of lines that it has, the least free share first; None for all.

        Raises:
            AskError: as for an answer about manifests.
        """

        def compute(opened: OpenedState, check_time: Callable[[], None]) -> Callable[[], dict[str, Any]]:
            caps = opened.state.index_caps(self._get_policies(), opened.now)
            return partial(convert_caps, describe_caps(opened.state, caps, check_time), opened.as_of, most_lines)

        return self._answer(compute)

    def answer_nodes(self, visible: VisibleNames) -> bytes:
        """Return the nodes as JSON, for someone who may list them.

        Raises:
            AskError: as for an answer about manifests.
        """

        def compute(opened: OpenedState, check_time: Callable[[], None]) -> AskNodes:
            return describe_nodes(opened.state, self._get_policies(), opened.as_of, visible, check_time)

        return self._answer(compute)

    def list_namespaces(self) -> NamespaceNames:
        """Return the names of all namespaces, for what an asker may see of them.

        Raises:
            AskError: as for an answer about manifests.
        """

        def compute(opened: OpenedState, _: Callable[[], None]) -> NamespaceNames:
            return list_namespaces(opened.state, opened.state.index_caps(self._get_policies(), opened.now))

        return self._run(compute, lambda names: names)

    def _answer(self, compute: _Compute[_Answer]) -> bytes:
        """Return what `compute` returns as JSON, one answer at a time, within the deadline."""
        return self._run(compute, lambda content: msgspec.json.encode(content() if callable(content) else content))

    def _run(self, compute: _Compute[T], finish: Callable[[T], R]) -> R:
        """Return what `finish` makes of what `compute` returns, which runs alone, within the deadline."""
        if not self._places.acquire(blocking=False):
            raise create_busy_error(f"{MAX_WAITING} asks wait", 1.0)
        try:
            return finish(self._compute(compute, self._monotonic() + DEADLINE_SECONDS))
        finally:
            self._places.release()

    def _compute(self, compute: _Compute[T], deadline: float) -> T:
        try:
            with self._open_state(deadline - self._monotonic()) as opened:
                content = compute(opened, partial(self._check_time, deadline))
            self._check_time(deadline)  # what `compute` leaves out since its time has ended is no answer
        except AskError:
            raise
        except (TooManyCopiesError, TooManyRowsError) as error:
            raise AskError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from None
        except TallygateError as error:
            # about a stored object, whose name the asker may not see
            message = "an object of the cluster is not as an API server stores it"
            raise AskError(HTTPStatus.SERVICE_UNAVAILABLE, message, detail=str(error)) from error
        return content

    def _start_part(self) -> Callable[[], bool]:
        until = self._monotonic() + PART_SECONDS
        return lambda: self._monotonic() < until

    def _check_time(self, deadline: float) -> None:
        if self._monotonic() > deadline:
            message = f"the answer takes longer than {DEADLINE_SECONDS:.0f} s: ask about fewer objects or pods"
            raise AskError(HTTPStatus.SERVICE_UNAVAILABLE, message, _RETRY_AFTER_SECONDS)
