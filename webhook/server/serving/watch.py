"""Files that are read again when they change: the certificate, its key, the tokens."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from watchfiles import watch

_POLL_SECONDS = 60


def watch_files(paths: Sequence[Path], reload: Callable[[], None], stop: threading.Event) -> threading.Thread:
    """Call `look` now, whenever something changes beside one of these files, and once a minute, until `stop` is set.

    Folders are watched, not files: a Secret is updated by turning a symlink beside them. Look every minute anyway,
    since some file systems tell of no change. `look` finds out itself whether anything is new, and does not raise.
    """
    folders = sorted({path.absolute().parent for path in paths})

    def run() -> None:
        while not stop.is_set():
            reload()
            for _ in _iterate_changes(folders, stop):
                reload()

    thread = threading.Thread(target=run, name="watch-files", daemon=True)
    thread.start()
    return thread


def _iterate_changes(folders: Sequence[Path], stop: threading.Event) -> Iterator[object]:
    """Something for every change and every minute, until stopped or no longer able to watch."""
    try:
        yield from watch(
            *folders,
            watch_filter=None,
            stop_event=stop,
            recursive=False,
            rust_timeout=_POLL_SECONDS * 1000,
            yield_on_timeout=True,
            raise_interrupt=False,
        )
    except (OSError, RuntimeError):  # a folder is gone, or the system has no more watches: look by the clock
        stop.wait(_POLL_SECONDS)
