"""Reflectors: list one resource, watch it from that revision, and restart after each failure, with backoff.

A reflector uses only its ports, so a test can simulate any server. The rules and their sources (Kubernetes "API
concepts"; client-go tools/cache/reflector.go and apiserver storage/cacher, v1.36):

- A list is paged and at one revision. When its continuation has expired (410), the server offers a token that
  continues at another revision. Such a list is inconsistent, so the reflector relists with larger pages.
- A watch begins at the last revision of the store. Only an end with 410 loses events: after any other end, the next
  watch begins at the revision where the last one stopped.
- The reflector cannot distinguish a silent watch from one that lost events. So it requests the revision of the server
  at intervals (`Freshness`). When a watch does not reach that revision in time, the reflector replaces it by a short
  watch, because that gets a bookmark two seconds before its end. When short watches do not help for long, it relists.
- An event that the server cannot read from etcd ("event received with PrevKv=nil", storage/etcd3/event.go) ends every
  watch that reaches it. After `_MAX_SERVER_ERRORS` server errors in a row, the reflector relists. client-go relists
  after the first one.
- The reflector requests an optional resource again after each 404. Until the API server knows the resource, its store
  is empty and synced.
- When a server is at an earlier revision than before (etcd restored from a backup), a watch would wait for changes that
  are already past. The reflector relists.

The age of a store is measured against the revision of the cluster. A watch sends events, but never states that they are
complete. So the reflector requests the revision of the cluster with a list of one object, which is a quorum read. Once
an event or a bookmark has reached that revision, the store was current at the time of the request. An idle resource
gets no bookmark for the revision at which its watch began (kube-apiserver cache_watcher.go, process, v1.36), so silence
alone proves nothing.
"""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import msgspec

from tallygate.kube import resource_codec
from tallygate.kube.api_errors import RELIST_REASONS, ApiError, ApiErrorReason
from tallygate.kube.pagination import PAGE_SIZE, list_pages, request_page
from tallygate.kube.transport import Clock, LineSplitter, Response, Transport, WatchStream

_MAX_MARKS = 64


class _Mark(NamedTuple):
    """A revision of the cluster. The cluster reached it at some time after `at`, in monotonic seconds."""

    at: float
    revision: int


class Freshness:
    """The revision of one store and the time of its last confirmation; all times are monotonic seconds."""

    def __init__(self) -> None:
        self.revision: int | None = None
        self.confirmed_at: float | None = None
        self._marks: deque[_Mark] = deque()

    def record_list(self, revision: int, started_at: float) -> None:
        """Record a complete list. It contains all writes before `started_at`."""
        self.revision = revision
        self.confirmed_at = started_at
        self._marks.clear()

    def record_event(self, revision: int) -> None:
        """Record that the watch has sent all events up to `revision`."""
        if self.revision is None or revision > self.revision:
            self.revision = revision
        self._confirm()

    def record_cluster_revision(self, revision: int, at: float) -> None:
        """Record the revision of the cluster, requested at `at`."""
        if len(self._marks) < _MAX_MARKS:
            self._marks.append(_Mark(at, revision))
        self._confirm()

    def get_pending_since(self) -> float | None:
        """Return the time of the oldest request whose revision the store has not reached, or None."""
        return self._marks[0].at if self._marks else None

    def compute_age(self, now: float) -> float | None:
        """Compute the seconds since the store was last known to be current; None before the first list."""
        at = self.confirmed_at
        return None if at is None else max(0.0, now - at)

    def _confirm(self) -> None:
        while self._marks and self.revision is not None and self._marks[0].revision <= self.revision:
            at = self._marks.popleft().at
            self.confirmed_at = at if self.confirmed_at is None else max(self.confirmed_at, at)


_INITIAL_DELAY_SECONDS = 0.5
_MAX_DELAY_SECONDS = 30.0  # as in client-go's reflector
_MAX_RETRY_AFTER_SECONDS = 60.0  # limits the `Retry-After` of a server


class Backoff:
    """Delays in seconds that double after each failure. `random_float` returns numbers in [0, 1)."""

    def __init__(self, random_float: Callable[[], float]) -> None:
        self._random_float = random_float
        self._next_delay = _INITIAL_DELAY_SECONDS

    def compute_delay(self, retry_after: float | None = None) -> float:
        """Return the delay after one more failure: at least `retry_after`, plus up to 50 percent at random."""
        delay = self._next_delay
        self._next_delay = min(2 * self._next_delay, _MAX_DELAY_SECONDS)
        if retry_after is not None:
            delay = max(delay, min(max(retry_after, 0.0), _MAX_RETRY_AFTER_SECONDS))
        return delay * (1 + self._random_float() / 2)

    def reset(self) -> None:
        """Return to the shortest delay."""
        self._next_delay = _INITIAL_DELAY_SECONDS


W = TypeVar("W")
R = TypeVar("R", bound=resource_codec.ResourceRecord)

_PAGE_SIZE_FACTOR = 4  # multiplies the page size after each list that expired
_MAX_PAGE_SIZE = 8000
_MAX_SILENT_WATCHES = 2  # silent watches before the reflector relists
_MAX_SERVER_ERRORS = 3  # server errors in a row before the reflector relists
_MAX_LINE_BYTES = 8 * 1024 * 1024  # the API server stores no object over 1.5 MiB, and an event contains one


@dataclass(frozen=True, slots=True)
class WatchTimeouts:
    """The intervals and timeouts of a reflector, in seconds.

    A watch requests an end after `watch` to twice that. The reflector requests the revision of the server every
    `progress_interval`. It replaces a watch that has not reached this revision after `progress_timeout` by a watch of
    `short_watch`. It relists a store that was not current for `relist_after`. A store older than `stale_after` is
    stale. Bookmarks arrive every minute, so `progress_timeout` is longer. `request_progress` replaces the watch by one
    of `urgent_watch`.
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
    """The status of a reflector.

    `age`: seconds since the store was last known to be current. `stale`: the reason why the store is stale, or None.
    `restarts`: restarted lists and watches by reason. `lists`: complete lists.
    """

    name: str
    revision: int | None
    age: float | None
    stale: str | None
    restarts: Mapping[ApiErrorReason, int]
    lists: int


class Reflector(Generic[W, R]):
    """The list and watch loop of one resource. `random_float` returns numbers in [0, 1) that spread the delays."""

    def __init__(
        self,
        codec: resource_codec.ResourceCodec[W, R],
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
        self._last_failure: ApiError | None = None
        self._expired_lists = 0
        self._list_count = 0
        self._next_watch_seconds: float | None = None
        self._is_progress_requested = False
        self._silent_watches = 0
        self._server_errors = 0
        self._next_request_at = 0.0

    def request_progress(self) -> None:
        """Request the revision of the cluster soon; any thread may call this method."""
        self._is_progress_requested = True

    def events(self) -> Generator[resource_codec.WatchEvent[R] | None]:
        """Yield lists and changes without end, and None when there is no event yet.

        The caller closes the iterator to stop; the iterator then closes its stream.
        """
        is_listed = False
        while True:
            try:
                if not is_listed:
                    yield from self._list()
                    is_listed = True
                yield from self._watch()
            except ApiError as failure:
                if failure.reason is ApiErrorReason.ABSENT and self._codec.is_optional:
                    yield from self._replace_by_nothing()
                self._record_failure(failure, is_listing=not is_listed)
                is_listed = (
                    is_listed and failure.reason not in RELIST_REASONS and self._server_errors < _MAX_SERVER_ERRORS
                )
                self._clock.sleep(self._backoff.compute_delay(failure.retry_after))
                yield None

    def get_status(self) -> ReflectorStatus:
        """Return the current status; any thread may call this method."""
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

    def _record_failure(self, failure: ApiError, *, is_listing: bool) -> None:
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

    def _list(self) -> Iterator[resource_codec.WatchEvent[R] | None]:
        started_at, limit = self._clock.now(), min(PAGE_SIZE * _PAGE_SIZE_FACTOR**self._expired_lists, _MAX_PAGE_SIZE)
        items: list[R] = []
        revision = 0
        for page in list_pages(self._transport, self._codec, limit):
            items += page.items
            revision = page.revision
            if page.continue_token:
                yield None
        yield resource_codec.Replaced(items, revision)
        self._freshness.record_list(revision, started_at)
        self._list_count += 1
        self._expired_lists = self._silent_watches = 0
        self._next_request_at = self._clock.now() + self._timeouts.progress_interval
        self._record_success()

    def _replace_by_nothing(self) -> Iterator[resource_codec.WatchEvent[R]]:
        """Yield an empty list, because the server does not know the resource."""
        yield resource_codec.Replaced([], 0)
        self._freshness.record_list(0, self._clock.now())

    # Watches

    def _watch(self) -> Iterator[resource_codec.WatchEvent[R] | None]:
        """Watch once, from the last revision, until the server ends the watch.

        Raises:
            ApiError: if the watch ends in another way.
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
                    self._freshness.record_event(event.revision)  # the consumer has applied it by now
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
        response = self._transport.watch(self._codec.path, query)
        if isinstance(response, Response):
            raise resource_codec.create_response_error(response)
        return response

    def _check_end(self, opened_at: float, *, has_events: bool, is_truncated: bool) -> None:
        if is_truncated:
            raise ApiError(ApiErrorReason.TRUNCATED, f"a watch of {self._codec.name} ended within an event")
        if not has_events and self._clock.now() - opened_at < 1.0:
            raise ApiError(ApiErrorReason.SHORT, f"a watch of {self._codec.name} ended as soon as it had begun")
        self._restarts[ApiErrorReason.ENDED] += 1
        self._record_success()

    # Progress of the watch

    def _check_progress(self, opened_at: float, seconds: float) -> None:
        now = self._clock.now()
        if now >= self._next_request_at:
            self._next_request_at = now + self._timeouts.progress_interval
            self._request_revision(now)
        if now > opened_at + seconds + self._timeouts.overdue_after:
            raise ApiError(ApiErrorReason.OVERDUE, f"a watch of {self._codec.name} did not end when it should have")

    def _check_silence(self, opened_at: float) -> None:
        """Raise an error when a silent watch is behind the revision of the cluster.

        A process that was frozen finds an old store and an unconfirmed revision when it continues. So the reflector
        relists only after `_MAX_SILENT_WATCHES` later watches were silent too.

        Raises:
            ApiError: if the watch, or several watches in a row, did not reach the revision in time.
        """
        now, since = self._clock.now(), self._freshness.get_pending_since()
        if since is None:
            self._silent_watches = 0
            return
        if (
            self._silent_watches >= _MAX_SILENT_WATCHES
            and (self._freshness.compute_age(now) or 0.0) > self._timeouts.relist_after
        ):
            raise ApiError(ApiErrorReason.BEHIND, f"watches of {self._codec.name} do not get to where the cluster is")
        if now - max(since, opened_at) > self._timeouts.progress_timeout:
            self._silent_watches += 1
            raise ApiError(ApiErrorReason.SILENT, f"a watch of {self._codec.name} did not get to where the cluster is")

    def _start_urgent_watch(self) -> None:
        """Request the revision now, and make the next watch short: its bookmark soon confirms that revision."""
        self._is_progress_requested = False
        self._request_revision(self._clock.now())
        self._next_watch_seconds = self._timeouts.urgent_watch

    def _request_revision(self, now: float) -> None:
        """Request the revision of the cluster; a failed request does not end the watch.

        Raises:
            ApiError: if the cluster is at an earlier revision than the store.
        """
        try:
            revision = request_page(self._transport, self._codec, {"limit": "1"}).revision
        except ApiError as failure:
            self._last_failure = failure
            return
        if self._freshness.revision is not None and revision < self._freshness.revision:
            raise ApiError(
                ApiErrorReason.REWOUND, f"the cluster is at revision {revision}, after {self._freshness.revision}"
            )
        self._freshness.record_cluster_revision(revision, now)
