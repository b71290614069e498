"""Files that are read again when they change: the certificate, its key, the tokens."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from watchfiles import watch

_LOOK_ANYWAY_MILLISECONDS = 60_000


def watch_files(paths: Sequence[Path], look: Callable[[], None], stop: threading.Event) -> threading.Thread:
    """Call `look` whenever something changes beside one of these files, and once a minute, until `stop` is set.

    Folders are watched, not files: a Secret is updated by turning a symlink beside them. Look every minute anyway,
    since some file systems tell of no change. `look` finds out itself whether anything is new, and does not raise.
    """
    folders = sorted({path.absolute().parent for path in paths})

    def run() -> None:
        look()
        for _ in watch(
            *folders,
            watch_filter=None,
            stop_event=stop,
            recursive=False,
            rust_timeout=_LOOK_ANYWAY_MILLISECONDS,
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            look()

    thread = threading.Thread(target=run, name="watch-files", daemon=True)
    thread.start()
    return thread
