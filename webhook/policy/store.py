"""The set of policies that is in force while its files change.

A set is taken over whole or not at all: what is broken is reported and the last good set stays in force.
"""

import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from watchfiles import watch

from webhook.errors import TallygateError
from webhook.policy.finding import Finding
from webhook.policy.load import found, read
from webhook.policy.model import PolicySet
from webhook.policy.parse import Parsed

_SETTLED_TRIES = 5

Signature = tuple[tuple[object, ...], ...]
"""What would differ if a file did: path, device, inode, size and times of each."""


class PolicyError(TallygateError):
    """The files say no usable set; the findings tell why."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        super().__init__("\n".join(str(finding) for finding in findings))


@dataclass(frozen=True, slots=True)
class Status:
    """What is in force, and what is not because it is broken.

    `digest`, `generation` (1 at the start, one more with every new set) and `loaded_at` are of the set in force,
    `warnings` too. `broken` are the findings of what lies on disk instead, empty when that is in force; `failures`
    counts the sets that were refused. `crash` is a fault of tallygate itself while it read or told, if there was one.
    """

    digest: str
    generation: int
    loaded_at: datetime
    warnings: tuple[Finding, ...] = ()
    broken: tuple[Finding, ...] = ()
    failures: int = 0
    crash: Exception | None = None


def _signature(paths: Sequence[Path]) -> Signature:
    """What tells that something changed, without reading it."""
    return tuple(_identity(file) for file in (*paths, *found(paths, [])))


def _identities(folders: Sequence[Path]) -> tuple[object, ...]:
    """What tells that a folder is another one than it was."""
    return tuple(_identity(folder) for folder in folders)


def _identity(path: Path) -> tuple[object, ...]:
    try:
        said = path.stat()
    except OSError:
        return (str(path),)
    if stat.S_ISDIR(said.st_mode):
        return (str(path), said.st_dev, said.st_ino)
    return (str(path), said.st_dev, said.st_ino, said.st_size, said.st_mtime_ns, said.st_ctime_ns)


def _read_settled(paths: Sequence[Path]) -> Parsed:
    """Read when nothing changes meanwhile, so that no set is half of one version and half of another."""
    for _ in range(_SETTLED_TRIES):
        before = _signature(paths)
        parsed = read(paths)
        if _signature(paths) == before:
            break
    return parsed


def _utc() -> datetime:
    return datetime.now(UTC)


class PolicyStore:
    """The set in force, kept up to date with files.

    Made from paths, whose set must be usable (else `PolicyError`). `start` watches them in a thread until `stop`;
    `on_change` is told of every new set and of every one refused, in that thread. A ConfigMap's folder changes by one
    rename of a symlink: the folder is watched, not its files, and read whole when it is quiet.

    `poll_seconds` bounds how late a change is seen that brings no event: a network file system, a folder that was
    deleted and made again.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        on_change: Callable[[Status], None] = lambda _: None,
        now: Callable[[], datetime] = _utc,
        poll_seconds: float = 1.0,
    ) -> None:
        self._paths = tuple(paths)
        self._folders = sorted({path if path.is_dir() else path.parent for path in paths})
        self._on_change = on_change
        self._now = now
        self._poll_milliseconds = max(1, int(poll_seconds * 1000))
        self._stopping = threading.Event()
        self._loading = threading.Lock()
        self._thread: threading.Thread | None = None
        self._signature = _signature(self._paths)
        parsed = _read_settled(self._paths)
        if not parsed.usable:
            raise PolicyError(parsed.findings)
        self._last = parsed
        self._policies = parsed.policies
        self._status = Status(parsed.policies.digest, 1, now(), parsed.findings)

    def current(self) -> PolicySet:
        """The set in force."""
        return self._policies

    def status(self) -> Status:
        """What is in force and what is broken."""
        return self._status

    def start(self) -> None:
        """Begin to watch."""
        self._thread = threading.Thread(target=self._watch, name="policy-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching, and wait until it has stopped."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def reload(self) -> Status:
        """Read the files now; returns what is in force then. Nothing happens if they say what they said before.

        A crash of the reader is a status as another is, and the last good set stays in force.
        """
        with self._loading:
            before, self._signature = self._status, _signature(self._paths)
            try:
                self._status = self._taken()
            except Exception as crash:  # noqa: BLE001 - the one place that turns a crash of the reader into a status
                self._status = replace(before, crash=crash)
            if self._status != before:
                self._on_change(self._status)
            return self._status

    def _taken(self) -> Status:
        """Read, and put a new set in force, or note why it cannot be."""
        parsed, before = _read_settled(self._paths), self._status
        if (parsed.policies.digest, parsed.findings) == (self._last.policies.digest, self._last.findings):
            return replace(before, crash=None)
        if parsed.usable:
            digest, generation = parsed.policies.digest, before.generation + 1
            status = Status(digest, generation, self._now(), parsed.findings, failures=before.failures)
            self._policies = parsed.policies
        else:
            status = replace(before, broken=parsed.findings, failures=before.failures + 1, crash=None)
        self._last = parsed
        return status

    def _watch(self) -> None:
        while not self._stopping.is_set():
            watched = _identities(self._folders)
            for _ in self._wakings():
                if _signature(self._paths) != self._signature:
                    self._reload_surely()
                if _identities(self._folders) != watched:
                    break  # another folder under the same name; else watch on, since what changes between is not told

    def _reload_surely(self) -> None:
        """Reload, and outlive a crash of whoever is told: nobody is left to tell, so that it is only noted."""
        try:
            self.reload()
        except Exception as crash:  # noqa: BLE001 - whatever it is, files are watched on
            self._status = replace(self._status, crash=crash)

    def _wakings(self) -> Iterator[object]:
        """Something for every change, and now and then without one, until stopped or no longer watching anything."""
        try:
            yield from watch(
                *self._folders,
                watch_filter=None,
                debounce=1000,
                step=50,
                stop_event=self._stopping,
                rust_timeout=self._poll_milliseconds,
                yield_on_timeout=True,
                recursive=False,
            )
        except (OSError, RuntimeError):  # a folder is gone, or the system has no more watches: look by the clock
            self._stopping.wait(self._poll_milliseconds / 1000)
            yield None
