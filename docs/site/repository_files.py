"""Files of the repository outside docs/ that documents point to: the site takes them along, under `files/`.

Documents are read in the repository and on the site, and a link has to lead somewhere in both.
"""

import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).parents[2]
_DOCUMENTS = "docs/"
_ICON = "deploy/helm/tallygate/icon.svg"  # at the top of the site, where the chart names it
_SKILLS = "docs/skills"
_LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is pointed to, and what that points to; of a folder all that it holds, and a list of it."""
    waiting = [path.relative_to(_ROOT).as_posix() for path in Path(config.docs_dir).rglob("*.md")]
    seen = set(waiting)
    while waiting:
        for path in set(_pointed_to(waiting.pop())) - seen:
            seen.add(path)
            waiting.append(path)
            files.append(_taken(path, config))
    files.append(File.generated(config, posixpath.basename(_ICON), abs_src_path=str(_ROOT / _ICON)))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Copy the skills for agents as they are: llms.txt names them."""
    shutil.copytree(_ROOT / _SKILLS, Path(config.site_dir) / Path(_SKILLS).name)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point a page's links to where on the site that is."""
    del config
    here = page.file.src_uri
    source = here.removeprefix("files/") if here.startswith("files/") else _DOCUMENTS + here

    def pointed(link: re.Match[str]) -> str:
        there = _on_site(_resolved(source, link[1]))
        if not files.get_file_from_path(there):
            return link[0]  # the strict build says what is wrong with it
        return f"]({posixpath.relpath(there, posixpath.dirname(here))}{link[2] or ''})"

    return _LINK.sub(pointed, markdown)


def _pointed_to(path: str) -> Iterator[str]:
    """What lies outside docs/ and is linked from a document, or lies in a folder."""
    source = _ROOT / path
    if source.is_dir():
        yield from (f"{path}/{each.name}" for each in source.iterdir() if each.is_file())
    elif source.suffix == ".md":
        links = (_resolved(path, link[1]) for link in _LINK.finditer(source.read_text()))
        yield from (each for each in links if not each.startswith(_DOCUMENTS) and (_ROOT / each).exists())


def _taken(path: str, config: MkDocsConfig) -> File:
    source = _ROOT / path
    taken = File.generated(config, _on_site(path), abs_src_path=str(source))
    if source.is_dir():
        rows = "\n".join(f"- [{name}]({name})" for name in sorted(each.name for each in source.iterdir()))
        taken = File.generated(config, _on_site(path), content=f"# {path}\n\n{rows}\n")
    taken.inclusion = InclusionLevel.NOT_IN_NAV
    return taken


def _resolved(source: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _on_site(path: str) -> str:
    """Where on the site a path of the repository is."""
    if path.startswith(_DOCUMENTS):
        return path.removeprefix(_DOCUMENTS)
    return f"files/{path}/index.md" if (_ROOT / path).is_dir() else f"files/{path}"
