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
from webhook.policy.lint_findings import LintFinding
from webhook.policy.load import find_policy_files, load_policies
from webhook.policy.model import PolicySet
from webhook.policy.parse import ParseResult

_MAX_READ_ATTEMPTS = 5

FileSignature = tuple[tuple[object, ...], ...]
"""What would differ if a file did: path, device, inode, size and times of each."""


class PolicyError(TallygateError):
    """The files say no usable set; the findings tell why."""

    def __init__(self, findings: tuple[LintFinding, ...]) -> None:
        self.findings = findings
        super().__init__("\n".join(str(finding) for finding in findings))


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """What is in force, and what is not because it is broken.

    `digest`, `generation` (1 at the start, one more with every new set) and `loaded_at` are of the set in force,
    `warnings` too. `broken` are the findings of what lies on disk instead, empty when that is in force; `failures`
    counts the sets that were refused. `crash` is a fault of tallygate itself while it read or told, if there was one.
    """

    digest: str
    generation: int
    loaded_at: datetime
    warnings: tuple[LintFinding, ...] = ()
    rejected_findings: tuple[LintFinding, ...] = ()
    rejected_count: int = 0
    internal_error: Exception | None = None


def _compute_signature(paths: Sequence[Path]) -> FileSignature:
    """What tells that something changed, without reading it."""
    return tuple(_read_identity(file) for file in (*paths, *find_policy_files(paths, [])))


def _list_identities(folders: Sequence[Path]) -> tuple[object, ...]:
    """What tells that a folder is another one than it was."""
    return tuple(_read_identity(folder) for folder in folders)


def _read_identity(path: Path) -> tuple[object, ...]:
    try:
        file_status = path.stat()
    except OSError:
        return (str(path),)
    if stat.S_ISDIR(file_status.st_mode):
        return (str(path), file_status.st_dev, file_status.st_ino)
    return (
        str(path),
        file_status.st_dev,
        file_status.st_ino,
        file_status.st_size,
        file_status.st_mtime_ns,
        file_status.st_ctime_ns,
    )


def _read_unchanged(paths: Sequence[Path]) -> ParseResult:
    """Read when nothing changes meanwhile, so that no set is half of one version and half of another."""
    for _ in range(_MAX_READ_ATTEMPTS):
        signature = _compute_signature(paths)
        parsed = load_policies(paths)
        if _compute_signature(paths) == signature:
            break
    return parsed


def _get_utc_now() -> datetime:
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
        on_change: Callable[[PolicyStatus], None] = lambda _: None,
        now: Callable[[], datetime] = _get_utc_now,
        poll_seconds: float = 1.0,
    ) -> None:
        self._paths = tuple(paths)
        self._folders = sorted({path if path.is_dir() else path.parent for path in paths})
        self._on_change = on_change
        self._now = now
        self._poll_milliseconds = max(1, int(poll_seconds * 1000))
        self._stop_event = threading.Event()
        self._load_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._signature = _compute_signature(self._paths)
        parsed = _read_unchanged(self._paths)
        if not parsed.is_usable:
            raise PolicyError(parsed.findings)
        self._last_parsed = parsed
        self._policies = parsed.policies
        self._status = PolicyStatus(parsed.policies.digest, 1, now(), parsed.findings)

    def get_policies(self) -> PolicySet:
        """The set in force."""
        return self._policies

    def get_status(self) -> PolicyStatus:
        """What is in force and what is broken."""
        return self._status

    def start(self) -> None:
        """Begin to watch."""
        self._thread = threading.Thread(target=self._run, name="policy-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching, and wait until it has stopped."""
        self._stop_event.set()
        if self._thread is not None:
            self._thread.join()

    def reload(self) -> PolicyStatus:
        """Read the files now; returns what is in force then. Nothing happens if they say what they said before.

        A crash of the reader is a status as another is, and the last good set stays in force.
        """
        with self._load_lock:
            previous, self._signature = self._status, _compute_signature(self._paths)
            try:
                self._status = self._load_status()
            except Exception as error:  # noqa: BLE001 - the one place that turns a crash of the reader into a status
                self._status = replace(previous, internal_error=error)
            if self._status != previous:
                self._on_change(self._status)
            return self._status

    def _load_status(self) -> PolicyStatus:
        """Read, and put a new set in force, or note why it cannot be."""
        parsed, previous = _read_unchanged(self._paths), self._status
        if (parsed.policies.digest, parsed.findings) == (self._last_parsed.policies.digest, self._last_parsed.findings):
            return replace(previous, internal_error=None)
        if parsed.is_usable:
            digest, generation = parsed.policies.digest, previous.generation + 1
            status = PolicyStatus(
                digest, generation, self._now(), parsed.findings, rejected_count=previous.rejected_count
            )
            self._policies = parsed.policies
        else:
            status = replace(
                previous,
                rejected_findings=parsed.findings,
                rejected_count=previous.rejected_count + 1,
                internal_error=None,
            )
        self._last_parsed = parsed
        return status

    def _run(self) -> None:
        while not self._stop_event.is_set():
            identities = _list_identities(self._folders)
            for _ in self._iterate_wakeups():
                if _compute_signature(self._paths) != self._signature:
                    self._reload_or_record_error()
                if _list_identities(self._folders) != identities:
                    break  # another folder under the same name; else watch on, since what changes between is not told

    def _reload_or_record_error(self) -> None:
        """Reload, and outlive a crash of whoever is told: nobody is left to tell, so that it is only noted."""
        try:
            self.reload()
        except Exception as error:  # noqa: BLE001 - whatever it is, files are watched on
            self._status = replace(self._status, internal_error=error)

    def _iterate_wakeups(self) -> Iterator[object]:
        """Something for every change, and now and then without one, until stopped or no longer watching anything."""
        try:
            yield from watch(
                *self._folders,
                watch_filter=None,
                debounce=1000,
                step=50,
                stop_event=self._stop_event,
                rust_timeout=self._poll_milliseconds,
                yield_on_timeout=True,
                recursive=False,
            )
        except (OSError, RuntimeError):  # a folder is gone, or the system has no more watches: look by the clock
            self._stop_event.wait(self._poll_milliseconds / 1000)
            yield None
