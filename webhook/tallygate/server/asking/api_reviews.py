"""Reviews that the API server answers: the call and its limits, and the answers that are kept for a while.

A review is an object that is created and never stored; its answer is the status of the object that comes back
(k8s.io/kubernetes pkg/registry/authentication/tokenreview and authorization/subjectaccessreview, v1.36).
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from http import HTTPStatus
from math import ceil
from threading import BoundedSemaphore, Lock
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient, ClientConfig, ResponseLimits
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.rate import RateLimit, create_busy_error

KEPT_SECONDS: Final = 10.0
"""How long an answer is used: as long as kube-apiserver itself keeps an accepted token (TokenSuccessCacheTTL in
pkg/kubeapiserver/options/authentication.go, v1.36)."""

MAX_ANSWERS: Final = 4096

_TIMEOUT_SECONDS: Final = 5.0
_LIMITS: Final = ResponseLimits(2.0, _TIMEOUT_SECONDS, _TIMEOUT_SECONDS, 256 * 1024)
_ANSWERED: Final = frozenset({HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED})
_RETRY_AFTER_SECONDS: Final = 1
_MAX_RETRY_AFTER_SECONDS: Final = 60

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
S = TypeVar("S", bound=msgspec.Struct)


class _Review(msgspec.Struct, Generic[S], frozen=True):
    status: S


class CallLimit:
    """The limits of the calls of one sort: `max_calls` in progress, and a rate. No call waits for another."""

    def __init__(self, max_calls: int, rate: RateLimit) -> None:
        self._places = BoundedSemaphore(max_calls)
        self._sentence = f"{max_calls} reviews of the API server are in progress"
        self._rate = rate

    def run(self, key: Hashable, call: Callable[[], V]) -> V:
        """Return the result of a call that counts for this key of the rate.

        Raises:
            AskError: with 429 if it is over a limit.
        """
        if not self._places.acquire(blocking=False):
            raise create_busy_error(self._sentence, 0.0)
        try:
            self._rate.take(key)
            return call()
        finally:
            self._places.release()


class ReviewClient(Generic[S]):
    """A client for one resource of reviews. `purpose` continues "the API server cannot be asked …"."""

    def __init__(  # noqa: PLR0913, PLR0917  # the parts of an address, and what its answers are
        self, client_config: ClientConfig, group: str, resource: str, kind: str, purpose: str, status: type[S]
    ) -> None:
        self._client = ApiClient(client_config, _LIMITS)
        self._path = f"/apis/{group}/v1/{resource}"
        self._type = {"apiVersion": f"{group}/v1", "kind": kind}
        self._resource = resource
        self._purpose = purpose
        self._decoder = msgspec.json.Decoder(_Review[status])  # type: ignore[valid-type]  # a type at run time, which mypy does not know

    def create(self, spec: dict[str, Any]) -> S:
        """Return the status of the review of a spec.

        Raises:
            AskError: with 503 if the API server does not answer, refuses, or answers something else.
        """
        body = msgspec.json.encode({**self._type, "spec": spec})
        try:
            response = self._client.create(self._path, body, timeout=_TIMEOUT_SECONDS)
        except ApiError as error:
            raise self._create_error("the API server does not answer", error.message, error.retry_after) from error
        if response.status not in _ANSWERED:
            reason = "the API server refuses"
            if response.status == HTTPStatus.FORBIDDEN:
                reason = f"this server has no right to create {self._resource}"
            detail = f"the API server answers {response.status} to the creation of {self._resource}"
            raise self._create_error(reason, detail, response.retry_after)
        try:
            review: _Review[S] = self._decoder.decode(response.body)
        except (ValueError, RecursionError):
            # Neither the text of the error nor the body is quoted: the API server sends back the token of a review.
            detail = f"the answer to the creation of {self._resource} is not a review"
            raise self._create_error("the API server's answer cannot be read", detail, None) from None
        return review.status

    def _create_error(self, reason: str, detail: str, retry_after: float | None) -> AskError:
        seconds = min(_MAX_RETRY_AFTER_SECONDS, max(_RETRY_AFTER_SECONDS, ceil(retry_after or 0)))
        message = f"the API server cannot be asked {self._purpose}: {reason}. Ask again in {seconds} s"
        return AskError(HTTPStatus.SERVICE_UNAVAILABLE, message, seconds, detail=detail)


class _KeptAnswer(NamedTuple, Generic[V]):
    value: V
    expires_at: float


class KeptAnswers(Generic[K, V]):
    """The answers to the `max_answers` questions that were asked last, each for `KEPT_SECONDS`; for any thread.

    An answer's time begins before its call. Errors are not kept. `monotonic` returns seconds.
    """

    def __init__(self, monotonic: Callable[[], float], max_answers: int = MAX_ANSWERS) -> None:
        self._monotonic = monotonic
        self._max_answers = max_answers
        self._lock = Lock()
        self._answers: OrderedDict[K, _KeptAnswer[V]] = OrderedDict()
        self._calls: dict[K, Future[V]] = {}

    def get(self, question: K, call: Callable[[], V]) -> V:
        """Return the answer that is kept, or that a call for the same question is about to return, or the call's.

        Raises:
            AskError: what the call raises, also if it is the one of another thread.
        """
        now = self._monotonic()
        with self._lock:
            kept = self._answers.get(question)
            if kept is not None and now < kept.expires_at:
                self._answers.move_to_end(question)
                return kept.value
            running = self._calls.get(question)
            if running is None:
                own = self._calls[question] = Future[V]()
        return self._call(question, call, own, now) if running is None else running.result()

    def _call(self, question: K, call: Callable[[], V], future: Future[V], started_at: float) -> V:
        try:
            value = call()
        except BaseException as error:
            with self._lock:
                del self._calls[question]
            future.set_exception(error)
            raise
        with self._lock:
            del self._calls[question]
            self._answers[question] = _KeptAnswer(value, started_at + KEPT_SECONDS)
            self._answers.move_to_end(question)
            if len(self._answers) > self._max_answers:
                self._answers.popitem(last=False)
        future.set_result(value)
        return value
