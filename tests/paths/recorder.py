"""The record of modules whose functions run in one thread."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import tallygate
import tallygate_certs

# Two folders of the repository where tests run in place, and site-packages where the wheel is installed.
_FOLDERS = tuple(f"{Path(inspect.getfile(package)).parents[1]}/" for package in (tallygate, tallygate_certs))
_PACKAGES = ("tallygate/", "tallygate_certs/")


@contextmanager
def record_modules() -> Iterator[list[str]]:
    """Yield a list that fills with the paths of the modules entered by this thread, each once, in order.

    The body of a module or of a class is not a function: what an import runs does not count.
    """
    modules: list[str] = []
    entered: set[str] = set()

    def record(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        if code.co_filename not in entered:
            entered.add(code.co_filename)
            name = _strip_folder(code.co_filename)
            if name.startswith(_PACKAGES):
                modules.append(name)

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        yield modules
    finally:
        sys.setprofile(before)


def _strip_folder(path: str) -> str:
    """Return the path of a module of the product below the folder of its package, any other path as it is."""
    return next((path.removeprefix(folder) for folder in _FOLDERS if path.startswith(folder)), path)
