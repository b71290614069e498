"""The documents: their links, and the documents that the code names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]*)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_MENTION = re.compile(r"docs/[a-z0-9/-]+\.md")
DOCUMENTS = [
    path
    for pattern in ("README.md", "docs/**/*.md", "policies/*.md", "deploy/**/*.md", ".github/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]
SOURCES = sorted(path for folder in ("webhook", "certs", "tests") for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(document: Path) -> None:
    broken = [link for link in _LINK.findall(document.read_text()) if not (document.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_anchor_of_a_link_is_a_heading(document: Path) -> None:
    broken = [
        f"{path}#{anchor}"
        for path, anchor in _ANCHOR.findall(document.read_text())
        if (target := document.parent / path if path else document).suffix == ".md"
        and anchor not in _list_anchors(target)
    ]
    assert broken == []


def _list_anchors(document: Path) -> set[str]:
    """Return the anchors of a document: its headings as GitHub and the site write them."""
    headings = _HEADING.findall(re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL))
    texts = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text).strip().lower()) for text in texts}


def test_every_document_that_the_code_names_exists() -> None:
    named = {name for source in SOURCES for name in _MENTION.findall(source.read_text())}
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_page_names_the_same_time_for_files_that_the_kubelet_updates() -> None:
    """Expect a limit above 90 s: the kubelet syncs a pod every 60 to 90 s (v1.36, pkg/kubelet/pod_workers.go)."""
    named = [
        f"{document.name}: {sentence}"
        for document in DOCUMENTS
        for sentence in re.findall(r"kubelet\s+updates\s+the\s+(?:volume|files)[^.;]*", document.read_text())
    ]
    assert named
    assert [each for each in named if "two minutes" not in " ".join(each.split())] == []
