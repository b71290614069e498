"""The record of modules whose functions run in one thread."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import tallygate.webhook

# The packages lie in the repository where tests run in place, and in site-packages where the wheel is installed.
_ROOT = Path(tallygate.webhook.__file__).parents[1]
_PACKAGES = ("webhook/", "certs/")


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
            name = code.co_filename.removeprefix(f"{_ROOT}/")
            if name.startswith(_PACKAGES):
                modules.append(name)

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        yield modules
    finally:
        sys.setprofile(before)
