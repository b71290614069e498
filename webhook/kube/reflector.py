"""How long to wait before trying again: longer each time, and never all at once.

Following one resource: list it, watch it from there, and begin again when that breaks.

Pure over its ports, so that a test can play any server. The rules, with where they come from (Kubernetes "API
concepts"; client-go tools/cache/reflector.go and apiserver storage/cacher, v1.36):

- A list is paged and at one revision. When its continuation has expired (410), the server offers a token that goes on
  inconsistently; that would be no view, so the list is begun anew, with larger pages.
- A watch begins at the revision reached. Any end of it but 410 loses nothing: the next one begins where it stopped.
- What a watch does not say cannot be told from what it lost, so now and then the server is asked which revision it is
  at (`freshness`). A watch that does not get there in time is replaced by one with a short time, since that gets a
  bookmark two seconds before its end; when that does not help for long, the resource is listed anew.
- An event that the server itself cannot read from etcd ("event received with PrevKv=nil", storage/etcd3/event.go) ends
  every watch that comes to it: after a few in a row that a server error has ended, list past it. client-go does so at
  the first one.
- A resource that an API server does not know (404) is looked for again and again, where it need not be known; until
  then there is none of it, and that is known.
- A server that is at an earlier revision than it was (etcd restored from a backup) would leave a watch waiting for
  changes that it has passed long ago: list anew.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from webhook.kube.api_errors import RELIST_REASONS, ApiErrorReason, WatchError
from webhook.kube.freshness import Freshness
from webhook.kube.resource_codec import Page, Replaced, ResourceCodec, ResourceRecord, WatchEvent, create_response_error
from webhook.kube.transport import Clock, LineSplitter, Response, Transport, WatchStream

_INITIAL_DELAY_SECONDS = 0.5
_MAX_DELAY_SECONDS = 30.0  # as client-go's reflector
_MAX_RETRY_AFTER_SECONDS = 60.0  # a server that asks for more is asked again anyway


class Backoff:
    """Waiting times in seconds. `chance` gives numbers in [0, 1)."""

    def __init__(self, random_float: Callable[[], float]) -> None:
        self._random_float = random_float
        self._next_delay = _INITIAL_DELAY_SECONDS

    def compute_delay(self, retry_after: float | None = None) -> float:
        """The time to wait after one more failure: at least what the server asked for, and up to half more."""
        delay = self._next_delay
        self._next_delay = min(2 * self._next_delay, _MAX_DELAY_SECONDS)
        if retry_after is not None:
            delay = max(delay, min(max(retry_after, 0.0), _MAX_RETRY_AFTER_SECONDS))
        return delay * (1 + self._random_float() / 2)

    def reset(self) -> None:
        """Begin with the shortest time again."""
        self._next_delay = _INITIAL_DELAY_SECONDS


W = TypeVar("W")
R = TypeVar("R", bound=ResourceRecord)

_PAGE_SIZE = 500
_PAGE_SIZE_FACTOR = 4  # times, after each list that expired
_MAX_PAGE_SIZE = 8000
_MAX_SILENT_WATCHES = 2  # watches that have not helped, before a new list is made
_MAX_SERVER_ERRORS = 3  # of the server, that have ended watches which got nowhere, before a new list is made
_MAX_ITEMS = 2_000_000
_MAX_LINE_BYTES = 8 * 1024 * 1024  # bytes; the API server stores no object over 1.5 MiB, and an event holds one
_OK = 200


@dataclass(frozen=True, slots=True)
class WatchTimeouts:
    """How often and how long, in seconds.

    A watch is told to end after `watch` to twice that. The server's revision is asked every `ask`; a watch that has not
    reached it `doubt` later is replaced by one of `short`; a view that was not current for `relist` is listed anew.
    `stale` is the age from which on a view should not be relied on. Bookmarks come every minute, so `doubt` is longer.
    Whoever cannot wait for one has the watch replaced by one of `hurried`.
    """

    watch: float = 240.0
    short_watch: float = 10.0
    urgent_watch: float = 4.0
    progress_interval: float = 15.0
    progress_timeout: float = 75.0
    relist_after: float = 300.0
    stale_after: float = 120.0
    poll_interval: float = 0.25
    overdue_after: float = 30.0


class ReflectorStatus(msgspec.Struct, frozen=True):
    """How a view stands: `age` in seconds since it was last known to be current, `stale` why not to rely on it.

    `restarts` counts lists and watches that were begun again, by reason; `lists` those that were taken up.
    """

    name: str
    revision: int | None
    age: float | None
    stale: str | None
    restarts: Mapping[ApiErrorReason, int]
    lists: int


class Reflector(Generic[W, R]):
    """Follows one resource. `chance` gives numbers in [0, 1), for times that are not to fall together."""

    def __init__(
        self,
        codec: ResourceCodec[W, R],
        transport: Transport,
        clock: Clock,
        random_float: Callable[[], float],
        timeouts: WatchTimeouts | None = None,
    ) -> None:
        self._codec = codec
        self._transport = transport
        self._clock = clock
        self._random_float = random_float
        self._timeouts = timeouts or WatchTimeouts()
        self._backoff = Backoff(random_float)
        self._freshness = Freshness()
        self._restarts: Counter[ApiErrorReason] = Counter()
        self._last_failure: WatchError | None = None
        self._expired_lists = 0
        self._list_count = 0
        self._next_watch_seconds: float | None = None
        self._is_progress_requested = False
        self._silent_watches = 0
        self._server_errors = 0
        self._next_request_at = 0.0

    def request_progress(self) -> None:
        """Find out soon how the cluster is now; may be called from any thread."""
        self._is_progress_requested = True

    def events(self) -> Generator[WatchEvent[R] | None]:
        """What is there and what changes, for ever; None when there is nothing to tell yet.

        Close the iterator to stop; it lets go of its stream then.
        """
        is_listed = False
        while True:
            try:
                if not is_listed:
                    yield from self._list()
                    is_listed = True
                yield from self._watch()
            except WatchError as failure:
                if failure.reason is ApiErrorReason.ABSENT and self._codec.is_optional:
                    yield from self._replace_by_nothing()
                self._record_failure(failure, is_listing=not is_listed)
                is_listed = (
                    is_listed and failure.reason not in RELIST_REASONS and self._server_errors < _MAX_SERVER_ERRORS
                )
                self._clock.sleep(self._backoff.compute_delay(failure.retry_after))
                yield None

    def get_status(self) -> ReflectorStatus:
        """How the view stands now; may be called from any thread."""
        age = self._freshness.compute_age(self._clock.now())
        stale = self._describe_staleness(age)
        return ReflectorStatus(
            self._codec.name, self._freshness.revision, age, stale, dict(self._restarts), self._list_count
        )

    def _describe_staleness(self, age: float | None) -> str | None:
        if age is not None and age <= self._timeouts.stale_after:
            return None
        since = "not listed yet" if age is None else f"not known to be current for {age:.0f} s"
        failure = self._last_failure
        return f"{self._codec.name}: {since}" + (f"; last trouble ({failure.reason}): {failure}" if failure else "")

    def _record_failure(self, failure: WatchError, *, is_listing: bool) -> None:
        self._restarts[failure.reason] += 1
        self._last_failure = failure
        self._next_watch_seconds = self._timeouts.short_watch if failure.reason is ApiErrorReason.SILENT else None
        self._expired_lists = self._expired_lists + 1 if is_listing and failure.reason is ApiErrorReason.EXPIRED else 0
        self._server_errors = self._server_errors + 1 if failure.reason is ApiErrorReason.SERVER_ERROR else 0

    def _record_success(self) -> None:
        self._last_failure = None
        self._server_errors = 0
        self._backoff.reset()

    # Lists

    def _list(self) -> Iterator[WatchEvent[R] | None]:
        started_at, limit = self._clock.now(), min(_PAGE_SIZE * _PAGE_SIZE_FACTOR**self._expired_lists, _MAX_PAGE_SIZE)
        page = self._request_page({"limit": str(limit)})
        items, revision = page.items, page.revision
        while page.continue_token:
            yield None
            token = page.continue_token
            page = self._request_page({"limit": str(limit), "continue": token})
            if page.revision != revision:
                raise WatchError(
                    ApiErrorReason.INCONSISTENT, f"a list went on at revision {page.revision} instead of {revision}"
                )
            if page.continue_token == token or len(items) + len(page.items) > _MAX_ITEMS:
                raise WatchError(ApiErrorReason.UNREADABLE, f"a list of {self._codec.name} that does not end")
            items += page.items
        yield Replaced(items, revision)
        self._freshness.record_list(revision, started_at)
        self._list_count += 1
        self._expired_lists = self._silent_watches = 0
        self._next_request_at = self._clock.now() + self._timeouts.progress_interval
        self._record_success()

    def _replace_by_nothing(self) -> Iterator[WatchEvent[R]]:
        """There is none of the resource, since the server does not know it."""
        yield Replaced([], 0)
        self._freshness.record_list(0, self._clock.now())

    def _request_page(self, query: Mapping[str, str]) -> Page[R]:
        """One page; without a `resourceVersion` in the query a list is a quorum read."""
        response = self._transport.get(self._codec.path, query)
        if response.status != _OK:
            raise create_response_error(response)
        return self._codec.decode_page(response.body)

    # Watches

    def _watch(self) -> Iterator[WatchEvent[R] | None]:
        """Watch once, from the revision reached, until the server ends it.

        Raises:
            WatchError: it ended otherwise.
        """
        seconds = self._next_watch_seconds or self._timeouts.watch * (1 + self._random_float())
        self._next_watch_seconds = None
        opened_at = self._clock.now()
        stream = self._open_watch(seconds)
        lines, has_events = LineSplitter(_MAX_LINE_BYTES), False
        try:
            while (chunk := stream.read(self._timeouts.poll_interval)) != b"":
                for line in lines.feed(chunk or b""):
                    event = self._codec.decode_event(line)
                    yield event
                    self._freshness.record_event(event.revision)  # by now it has been taken up
                    self._record_success()
                    has_events = True
                self._check_progress(opened_at, seconds)
                if self._is_progress_requested:
                    self._start_urgent_watch()
                    return
                if chunk is None:
                    self._check_silence(opened_at)
                    yield None
        finally:
            stream.close()
        self._check_end(opened_at, has_events=has_events, is_truncated=lines.has_partial_line)

    def _open_watch(self, seconds: float) -> WatchStream:
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(self._freshness.revision),
            "timeoutSeconds": str(max(1, int(seconds))),
        }
        response = self._transport.open(self._codec.path, query)
        if isinstance(response, Response):
            raise create_response_error(response)
        return response

    def _check_end(self, opened_at: float, *, has_events: bool, is_truncated: bool) -> None:
        if is_truncated:
            raise WatchError(ApiErrorReason.TRUNCATED, f"a watch of {self._codec.name} ended within an event")
        if not has_events and self._clock.now() - opened_at < 1.0:
            raise WatchError(ApiErrorReason.SHORT, f"a watch of {self._codec.name} ended as soon as it had begun")
        self._restarts[ApiErrorReason.ENDED] += 1
        self._record_success()

    # Whether the watch says everything

    def _check_progress(self, opened_at: float, seconds: float) -> None:
        now = self._clock.now()
        if now >= self._next_request_at:
            self._next_request_at = now + self._timeouts.progress_interval
            self._request_revision(now)
        if now > opened_at + seconds + self._timeouts.overdue_after:
            raise WatchError(ApiErrorReason.OVERDUE, f"a watch of {self._codec.name} did not end when it should have")

    def _check_silence(self, opened_at: float) -> None:
        """Nothing comes just now: see whether that can be right.

        A process that was frozen finds its view old and its question unanswered when it wakes; so a new list is only
        made when watches begun since then have not helped either.
        """
        now, since = self._clock.now(), self._freshness.get_pending_since()
        if since is None:
            self._silent_watches = 0
            return
        if (
            self._silent_watches >= _MAX_SILENT_WATCHES
            and (self._freshness.compute_age(now) or 0.0) > self._timeouts.relist_after
        ):
            raise WatchError(ApiErrorReason.BEHIND, f"watches of {self._codec.name} do not get to where the cluster is")
        if now - max(since, opened_at) > self._timeouts.progress_timeout:
            self._silent_watches += 1
            raise WatchError(
                ApiErrorReason.SILENT, f"a watch of {self._codec.name} did not get to where the cluster is"
            )

    def _start_urgent_watch(self) -> None:
        """Ask at once, and watch so shortly that a bookmark soon tells whether that revision was reached."""
        self._is_progress_requested = False
        self._request_revision(self._clock.now())
        self._next_watch_seconds = self._timeouts.urgent_watch

    def _request_revision(self, now: float) -> None:
        """Find out which revision the cluster is at; a question without an answer is no reason to end the watch."""
        try:
            revision = self._request_page({"limit": "1"}).revision
        except WatchError as failure:
            self._last_failure = failure
            return
        if self._freshness.revision is not None and revision < self._freshness.revision:
            raise WatchError(
                ApiErrorReason.REWOUND, f"the cluster is at revision {revision}, after {self._freshness.revision}"
            )
        self._freshness.record_cluster_revision(revision, now)
