"""Following one resource: list it, watch it from there, and begin again when that breaks.

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

from webhook.state.watch.backoff import Backoff
from webhook.state.watch.events import Event, Replaced, Row
from webhook.state.watch.failure import LIST_ANEW, Reason, WatchError
from webhook.state.watch.freshness import Freshness
from webhook.state.watch.lines import Lines
from webhook.state.watch.ports import Answer, Clock, Stream, Transport
from webhook.state.watch.wire import Page, Reading, refused

W = TypeVar("W")
R = TypeVar("R", bound=Row)

_PAGE = 500
_LARGER_PAGE = 4  # times, after each list that expired
_LARGEST_PAGE = 8000
_DOUBTS = 2  # watches that have not helped, before a new list is made
_ERRORS = 3  # of the server, that have ended watches which got nowhere, before a new list is made
_MOST_ITEMS = 2_000_000
_MOST_LINE = 8 * 1024 * 1024  # bytes; the API server stores no object over 1.5 MiB, and an event holds one
_OK = 200


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and how long, in seconds.

    A watch is told to end after `watch` to twice that. The server's revision is asked every `ask`; a watch that has not
    reached it `doubt` later is replaced by one of `short`; a view that was not current for `relist` is listed anew.
    `stale` is the age from which on a view should not be relied on. Bookmarks come every minute, so `doubt` is longer.
    Whoever cannot wait for one has the watch replaced by one of `hurried`.
    """

    watch: float = 240.0
    short: float = 10.0
    hurried: float = 4.0
    ask: float = 15.0
    doubt: float = 75.0
    relist: float = 300.0
    stale: float = 120.0
    tick: float = 0.25
    grace: float = 30.0


class Status(msgspec.Struct, frozen=True):
    """How a view stands: `age` in seconds since it was last known to be current, `stale` why not to rely on it.

    `restarts` counts lists and watches that were begun again, by reason; `lists` those that were taken up.
    """

    name: str
    revision: int | None
    age: float | None
    stale: str | None
    restarts: Mapping[Reason, int]
    lists: int


class Reflector(Generic[W, R]):
    """Follows one resource. `chance` gives numbers in [0, 1), for times that are not to fall together."""

    def __init__(
        self,
        reading: Reading[W, R],
        transport: Transport,
        clock: Clock,
        chance: Callable[[], float],
        pace: Pace | None = None,
    ) -> None:
        self._reading = reading
        self._transport = transport
        self._clock = clock
        self._chance = chance
        self._pace = pace or Pace()
        self._backoff = Backoff(chance)
        self._fresh = Freshness()
        self._restarts: Counter[Reason] = Counter()
        self._trouble: WatchError | None = None
        self._expired = 0
        self._lists = 0
        self._next_watch: float | None = None
        self._is_hurried = False
        self._doubts = 0
        self._errors = 0
        self._ask_at = 0.0

    def hurry(self) -> None:
        """Find out soon how the cluster is now; may be called from any thread."""
        self._is_hurried = True

    def events(self) -> Generator[Event[R] | None]:
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
                if failure.reason is Reason.ABSENT and self._reading.may_be_absent:
                    yield from self._none()
                self._fell(failure, is_listing=not is_listed)
                is_listed = is_listed and failure.reason not in LIST_ANEW and self._errors < _ERRORS
                self._clock.rest(self._backoff.again(failure.retry_after))
                yield None

    def status(self) -> Status:
        """How the view stands now; may be called from any thread."""
        age = self._fresh.age(self._clock.now())
        stale = self._stale(age)
        return Status(self._reading.name, self._fresh.revision, age, stale, dict(self._restarts), self._lists)

    def _stale(self, age: float | None) -> str | None:
        if age is not None and age <= self._pace.stale:
            return None
        since = "not listed yet" if age is None else f"not known to be current for {age:.0f} s"
        trouble = self._trouble
        return f"{self._reading.name}: {since}" + (f"; last trouble ({trouble.reason}): {trouble}" if trouble else "")

    def _fell(self, failure: WatchError, *, is_listing: bool) -> None:
        self._restarts[failure.reason] += 1
        self._trouble = failure
        self._next_watch = self._pace.short if failure.reason is Reason.SILENT else None
        self._expired = self._expired + 1 if is_listing and failure.reason is Reason.EXPIRED else 0
        self._errors = self._errors + 1 if failure.reason is Reason.SERVER_ERROR else 0

    def _went_well(self) -> None:
        self._trouble = None
        self._errors = 0
        self._backoff.succeeded()

    # Lists

    def _list(self) -> Iterator[Event[R] | None]:
        begun_at, limit = self._clock.now(), min(_PAGE * _LARGER_PAGE**self._expired, _LARGEST_PAGE)
        page = self._page({"limit": str(limit)})
        items, revision = page.items, page.revision
        while page.more:
            yield None
            token = page.more
            page = self._page({"limit": str(limit), "continue": token})
            if page.revision != revision:
                raise WatchError(
                    Reason.INCONSISTENT, f"a list went on at revision {page.revision} instead of {revision}"
                )
            if page.more == token or len(items) + len(page.items) > _MOST_ITEMS:
                raise WatchError(Reason.UNREADABLE, f"a list of {self._reading.name} that does not end")
            items += page.items
        yield Replaced(items, revision)
        self._fresh.listed(revision, begun_at)
        self._lists += 1
        self._expired = self._doubts = 0
        self._ask_at = self._clock.now() + self._pace.ask
        self._went_well()

    def _none(self) -> Iterator[Event[R]]:
        """There is none of the resource, since the server does not know it."""
        yield Replaced([], 0)
        self._fresh.listed(0, self._clock.now())

    def _page(self, query: Mapping[str, str]) -> Page[R]:
        """One page; without a `resourceVersion` in the query a list is a quorum read."""
        answer = self._transport.get(self._reading.path, query)
        if answer.status != _OK:
            raise refused(answer)
        return self._reading.page(answer.body)

    # Watches

    def _watch(self) -> Iterator[Event[R] | None]:
        """Watch once, from the revision reached, until the server ends it.

        Raises:
            WatchError: it ended otherwise.
        """
        seconds = self._next_watch or self._pace.watch * (1 + self._chance())
        self._next_watch = None
        opened_at = self._clock.now()
        stream = self._open(seconds)
        lines, told = Lines(_MOST_LINE), False
        try:
            while (chunk := stream.read(self._pace.tick)) != b"":
                for line in lines.feed(chunk or b""):
                    event = self._reading.event(line)
                    yield event
                    self._fresh.reached(event.revision)  # by now it has been taken up
                    self._went_well()
                    told = True
                self._look_around(opened_at, seconds)
                if self._is_hurried:
                    self._begin_to_hurry()
                    return
                if chunk is None:
                    self._doubt(opened_at)
                    yield None
        finally:
            stream.close()
        self._ended(opened_at, told=told, cut=lines.is_within_a_line)

    def _open(self, seconds: float) -> Stream:
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(self._fresh.revision),
            "timeoutSeconds": str(max(1, int(seconds))),
        }
        answer = self._transport.open(self._reading.path, query)
        if isinstance(answer, Answer):
            raise refused(answer)
        return answer

    def _ended(self, opened_at: float, *, told: bool, cut: bool) -> None:
        if cut:
            raise WatchError(Reason.TRUNCATED, f"a watch of {self._reading.name} ended within an event")
        if not told and self._clock.now() - opened_at < 1.0:
            raise WatchError(Reason.SHORT, f"a watch of {self._reading.name} ended as soon as it had begun")
        self._restarts[Reason.ENDED] += 1
        self._went_well()

    # Whether the watch says everything

    def _look_around(self, opened_at: float, seconds: float) -> None:
        now = self._clock.now()
        if now >= self._ask_at:
            self._ask_at = now + self._pace.ask
            self._ask(now)
        if now > opened_at + seconds + self._pace.grace:
            raise WatchError(Reason.OVERDUE, f"a watch of {self._reading.name} did not end when it should have")

    def _doubt(self, opened_at: float) -> None:
        """Nothing comes just now: see whether that can be right.

        A process that was frozen finds its view old and its question unanswered when it wakes; so a new list is only
        made when watches begun since then have not helped either.
        """
        now, since = self._clock.now(), self._fresh.waits_since()
        if since is None:
            self._doubts = 0
            return
        if self._doubts >= _DOUBTS and (self._fresh.age(now) or 0.0) > self._pace.relist:
            raise WatchError(Reason.BEHIND, f"watches of {self._reading.name} do not get to where the cluster is")
        if now - max(since, opened_at) > self._pace.doubt:
            self._doubts += 1
            raise WatchError(Reason.SILENT, f"a watch of {self._reading.name} did not get to where the cluster is")

    def _begin_to_hurry(self) -> None:
        """Ask at once, and watch so shortly that a bookmark soon tells whether that revision was reached."""
        self._is_hurried = False
        self._ask(self._clock.now())
        self._next_watch = self._pace.hurried

    def _ask(self, now: float) -> None:
        """Find out which revision the cluster is at; a question without an answer is no reason to end the watch."""
        try:
            revision = self._page({"limit": "1"}).revision
        except WatchError as failure:
            self._trouble = failure
            return
        if self._fresh.revision is not None and revision < self._fresh.revision:
            raise WatchError(Reason.REWOUND, f"the cluster is at revision {revision}, after {self._fresh.revision}")
        self._fresh.asked(revision, now)
