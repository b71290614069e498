"""The examples of docs/ that need a cluster: commands of kubectl, with the policies and the files of the page."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.command_output import run_kubectl
from e2e.namespaces import until_it_takes_pods
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Site
from e2e.terminal import Terminal
from tests.pages.page import Page
from tests.pages.page_examples import is_offline, list_played_pages, play

_NAMESPACE = "team-a"


def needs_cluster(block: str) -> bool:
    """Return whether a block is played here."""
    return not is_offline(block)


_PAGES = [
    page for page in list_played_pages() if any(needs_cluster(block[2]) for block in page.list_blocks("console"))
]


@contextmanager
def create_namespace(site: Site) -> Iterator[None]:
    """Create the namespace of all examples; after the block it is deleted, and its pods with it."""
    run_kubectl(site.cluster, "create", "namespace", _NAMESPACE)
    try:
        until_it_takes_pods(site.cluster, _NAMESPACE)
        yield
    finally:
        run_kubectl(site.cluster, "delete", "namespace", _NAMESPACE)


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
@pytest.mark.usefixtures("gate")
def test_the_examples_of_a_page_print_what_it_shows(
    page: Page, site: Site, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    site.gate.write_policies(SHIPPED_FILES | page.list_policies())
    try:
        with create_namespace(site):
            terminal = Terminal(site, _NAMESPACE, tmp_path)
            for name, content in page.list_files().items():
                (tmp_path / name).write_text(content)
            now = play(page, terminal.run, needs_cluster)
    finally:
        site.gate.write_policies(SHIPPED_FILES)
    if pytestconfig.getoption("--record"):
        page.path.write_text(now)
    assert now == page.read()
