"""The distribution: every package is installed below `tallygate`, and nothing imports it by another name."""

import re
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_FOLDERS = ("webhook", "certs")


def test_every_package_is_installed() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = [path.parent for folder in _FOLDERS for path in (_ROOT / folder).rglob("__init__.py")]
    assert project["tool"]["setuptools"]["packages"] == sorted(
        ".".join(("tallygate", *folder.relative_to(_ROOT).parts)) for folder in folders
    )


def test_no_module_is_imported_by_the_name_of_its_folder() -> None:
    """In a clone Python would find it there, as a second module with classes of its own."""
    imports = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(_FOLDERS)})\b", re.MULTILINE)
    sources = [path for folder in (*_FOLDERS, "tests", "e2e") for path in (_ROOT / folder).rglob("*.py")]
    assert [str(path) for path in sources if imports.search(path.read_text(encoding="utf-8"))] == []
