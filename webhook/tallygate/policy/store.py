"""The store of the active policy set, which reloads files when they change.

A set is replaced completely or not at all: an invalid set is reported, and the last valid set stays active.
"""

import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from watchfiles import watch

from tallygate.errors import TallygateError
from tallygate.policy.lint_findings import LintFinding
from tallygate.policy.load import find_policy_files, load_policies, read_policy_files
from tallygate.policy.model import PolicySet
from tallygate.policy.parse import ParseResult

_MAX_READ_ATTEMPTS = 5

FileSignature = tuple[tuple[object, ...], ...]
"""A value that changes with the files: path, device, inode, size and times of each."""


class PolicyError(TallygateError):
    """Policy files without a usable set; the findings have the reasons."""

    def __init__(self, findings: tuple[LintFinding, ...]) -> None:
        self.findings = findings
        super().__init__("\n".join(str(finding) for finding in findings))


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """The status of the store: the active set, and a rejected set on disk.

    `digest`, `generation` (1 at the start, incremented with every new set), `loaded_at` and `warnings` belong to the
    active set. `rejected_findings` are the findings of the set on disk if it was rejected, empty if it is active.
    `rejected_count` counts the rejected sets. `internal_error` is an exception of tallygate itself during a reload or
    in `on_change`, or None.
    """

    digest: str
    generation: int
    loaded_at: datetime
    warnings: tuple[LintFinding, ...] = ()
    rejected_findings: tuple[LintFinding, ...] = ()
    rejected_count: int = 0
    internal_error: Exception | None = None


def _compute_signature(paths: Sequence[Path]) -> FileSignature:
    return tuple(_read_identity(file) for file in (*paths, *find_policy_files(paths, [])))


def _list_identities(folders: Sequence[Path]) -> tuple[object, ...]:
    """Return values that change if another folder replaces one of these."""
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


def _read_unchanged(paths: Sequence[Path]) -> ParseResult | None:
    """Read the files until they do not change meanwhile, so that no set mixes two versions.

    Return None if they changed during each of five reads.
    """
    for _ in range(_MAX_READ_ATTEMPTS):
        signature = _compute_signature(paths)
        parsed = load_policies(paths)
        if _compute_signature(paths) == signature:
            return parsed
    return None


def _get_utc_now() -> datetime:
    return datetime.now(UTC)


class PolicyStore:
    """The active policy set, kept up to date with its files.

    The set at these paths must be usable at the start (else `PolicyError`), and must not change during each of five
    reads (else `TallygateError`). `start` watches the paths in a thread until
    `stop`. That thread calls `on_change` with every new set and every rejected one. A ConfigMap's folder changes by one
    rename of a symlink: the store watches the folder, not its files, and reads it completely once it is quiet.

    `poll_seconds` bounds the delay of a change without an event, as in a nested folder, in a network file system, or in
    a folder that was deleted and created again.
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
        if parsed is None:
            raise TallygateError(
                f"the policy files changed during each of {_MAX_READ_ATTEMPTS} reads: start again when they are "
                "complete"
            )
        if not parsed.is_usable:
            raise PolicyError(parsed.findings)
        self._last_parsed = parsed
        self._policies = parsed.policies
        self._status = PolicyStatus(parsed.policies.digest, 1, now(), parsed.findings)

    def get_policies(self) -> PolicySet:
        return self._policies

    def get_status(self) -> PolicyStatus:
        """Return the status of the active set and of a rejected one."""
        return self._status

    def read_files(self) -> dict[str, bytes]:
        """Return the contents of the policy files as they are on disk now, by path."""
        return read_policy_files(self._paths)

    def start(self) -> None:
        """Start the thread that watches the files."""
        self._thread = threading.Thread(target=self._run, name="policy-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching, and wait for the end of the thread."""
        self._stop_event.set()
        if self._thread is not None:
            self._thread.join()

    def reload(self) -> PolicyStatus:
        """Read the files now and return the status; unchanged contents change nothing.

        An unexpected exception becomes part of the status, and the last valid set stays active.
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
        """Read the files, activate a new set or record its findings, and return the status.

        Files that change during every read leave the status as it is: the next wake-up reads them again.
        """
        parsed, previous = _read_unchanged(self._paths), self._status
        if parsed is None:
            self._signature = ()
            return previous
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
                    break  # the path is another folder now; else keep the watch, since a new one could miss changes

    def _reload_or_record_error(self) -> None:
        """Reload, and survive an exception of `on_change`: no caller could handle it, so the status records it."""
        try:
            self.reload()
        except Exception as error:  # noqa: BLE001 - whatever it is, files are watched on
            self._status = replace(self._status, internal_error=error)

    def _iterate_wakeups(self) -> Iterator[object]:
        """Yield after every change, and at intervals without one, until the store stops or a watch fails."""
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
        except (OSError, RuntimeError):  # a folder is deleted, or the system has no more watches: poll by time
            self._stop_event.wait(self._poll_milliseconds / 1000)
            yield None
