"""The figures of the code as a whole, beside the numbers that they should have."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.paths.runs import run_cold
from tests.schemas import FILES, find_file

_ROOT = Path(__file__).parents[2]
_PRODUCT = (_ROOT / "webhook", _ROOT / "certs")
_SHARED = ("check-snapshot", "usage-snapshot", "audit-snapshot", "predict-snapshot")
_CHECKER = (Path(sys.executable).parent / "basedpyright", "--level", "error")


class Figure(NamedTuple):
    """A number, and the bound that it should keep; without one it only informs."""

    name: str
    value: int
    bound: str = ""


def list_figures() -> Iterator[Figure]:
    """Yield the figures; those of the paths take some seconds each, and the imports a minute."""
    modules = [path for folder in _PRODUCT for path in sorted(folder.rglob("*.py"))]
    texts = [path.read_text("utf-8") for path in modules]
    yield Figure("modules", len(modules))
    yield Figure("lines of Python", sum(text.count("\n") for text in texts), "<= 76000")
    for word, most in (("surge", 14), ("claims", 100)):
        yield Figure(f"modules with {word}", _count(texts, re.compile(rf"\b{word}\b").search), f"<= {most}")
    generated = {find_file(name) for name in FILES}
    written = [path for folder in _PRODUCT for path in folder.rglob("*.json") if path not in generated]
    yield Figure(
        "lines of JSON written by hand", sum(path.read_text("utf-8").count("\n") for path in written), "<= 300"
    )
    entered = {name: run_cold(name) for name in ("create", "predict", *_SHARED)}
    for name, path, most in (
        ("check, with policies and a snapshot", "check-snapshot", 55),
        ("create", "create", 45),
        ("predict, of a cluster", "predict", 52),
    ):
        yield Figure(f"modules entered by {name}", len(entered[path]), f"<= {most}")
    shared = set.intersection(*(set(entered[name]) for name in _SHARED))
    yield Figure("modules shared by check, usage, audit and predict of a snapshot", len(shared), ">= 60")
    yield Figure("imports that a reader does not resolve", _count_unresolved(), "<= 0")


def _count(texts: list[str], has_word: Callable[[str], object]) -> int:
    return sum(bool(has_word(text)) for text in texts)


def _count_unresolved() -> int:
    done = subprocess.run(_CHECKER, cwd=_ROOT, capture_output=True, text=True, check=False)  # noqa: S603  # our own
    if "error" not in done.stdout:
        raise RuntimeError(f"basedpyright says nothing: {done.stderr}")
    return done.stdout.count(" error: ")
