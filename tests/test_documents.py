"""The documents: their links, and the documents that the code names."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]*)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_EXTERNAL = re.compile(r"\]\(([a-z]+:[^)\s]*)\)")
_SITE = re.compile(r"https://tallygate\.dev/([a-z0-9/-]+)\.html(?:#([\w-]+))?")
_MENTION = re.compile(r"docs/[a-z0-9/-]+\.md")
DOCUMENTS = [
    path
    for pattern in ("README.md", "docs/**/*.md", "policies/*.md", "deploy/**/*.md", ".github/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]
_HOSTS = {
    *("brew.sh", "docs.astral.sh", "pipx.pypa.io", "krew.sigs.k8s.io", "kind.sigs.k8s.io"),  # programs to install
    *("docs.sigstore.dev", "scorecard.dev", "docs.github.com", "github.com", "pkg.go.dev"),
    *("kueue.sigs.k8s.io", "project-hami.io", "www.haproxy.org"),  # projects beside ours
    *("keepachangelog.com", "semver.org", "www.contributor-covenant.org"),
    "tallygate.dev",
}
"""The hosts to which documents link. Look at a page before you add its host: no test asks for it."""
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


def _list_external_links() -> Iterator[tuple[str, str]]:
    """Yield the name of a document and a link in it, for each link to elsewhere."""
    for document in DOCUMENTS:
        yield from ((document.name, link) for link in _EXTERNAL.findall(document.read_text()))


def test_every_external_link_is_well_formed_and_leads_to_a_known_host() -> None:
    """Expect https, a host of the list and nothing else before the path; no link to a branch, whose files move."""
    broken = []
    for document, link in _list_external_links():
        parts = urlsplit(link)
        moves = parts.netloc == "github.com" and re.search(
            r"/(?:blob|tree|raw)/(?:main|master|HEAD)(?:/|$)", parts.path
        )
        if (parts.scheme, parts.netloc) not in {("https", host) for host in _HOSTS} or moves:
            broken.append((document, link))
    assert broken == []
    assert {urlsplit(link).netloc for _, link in _list_external_links()} | {"tallygate.dev"} == _HOSTS


def test_a_page_elsewhere_has_one_address() -> None:
    """Find addresses that differ by what a redirect changes: `www.`, a slash or `index.html` at the end, capitals."""
    addresses: dict[str, set[str]] = {}
    for _, link in _list_external_links():
        address = link.partition("#")[0]
        same = re.sub(r"/?(?:index\.html)?$", "", address.lower().replace("://www.", "://"))
        addresses.setdefault(same, set()).add(address)
    assert {same: found for same, found in addresses.items() if len(found) > 1} == {}


def test_every_address_of_the_site_is_a_page() -> None:
    """Read documents and code: what `tallygate init` prints leads to a heading, too."""
    texts = [document.read_text() for document in (*DOCUMENTS, ROOT / "docs" / "llms.txt", *SOURCES)]
    addresses = {found for text in texts for found in _SITE.findall(text)}
    assert ("concepts/why-files", "how-they-get-into-the-cluster") in addresses
    pages = {path: ROOT / "docs" / f"{path}.md" for path, _ in addresses}
    assert [path for path, page in pages.items() if not page.exists()] == []
    assert [each for each in sorted(addresses) if each[1] and each[1] not in _list_anchors(pages[each[0]])] == []


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
