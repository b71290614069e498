"""The distribution: two packages, each in a folder at the top, and nothing imports them by the folder's name."""

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_FOLDERS = ("webhook", "certs")


def test_every_folder_with_modules_is_a_package() -> None:
    """A folder without `__init__` would be a namespace, which the contracts of imports pass over."""
    modules = [path for folder in _FOLDERS for path in (_ROOT / folder).rglob("*.py")]
    assert {path.parent for path in modules} == {path.parent for path in modules if path.name == "__init__.py"}


def test_no_module_is_imported_by_the_name_of_its_folder() -> None:
    """In a clone Python would find it there, as a second module with classes of its own."""
    imports = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(_FOLDERS)})\b", re.MULTILINE)
    sources = [path for folder in (*_FOLDERS, "tests", "e2e") for path in (_ROOT / folder).rglob("*.py")]
    assert [str(path) for path in sources if imports.search(path.read_text(encoding="utf-8"))] == []
