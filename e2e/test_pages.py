"""The examples of docs/ that need a cluster: commands of kubectl, with the policies and the files of the page."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.command_output import run_kubectl
from e2e.extra_gates import require_gate_process, run_watching_gate
from e2e.gates.process import GateProcess
from e2e.namespaces import until_it_takes_pods
from e2e.node_resources import DONGLES, advertise
from e2e.ports import Site
from e2e.terminal import Terminal
from e2e.waiting import until
from tests.pages.page import Page
from tests.pages.page_examples import is_offline, list_played_pages, play

_NAMESPACE = "team-a"
_GPUS = {"nvidia.com/gpu": "8"}
_WITHIN = 120.0  # seconds, until the gate has counted a pod


def needs_cluster(block: str) -> bool:
    """Return whether a block is played here."""
    return not is_offline(block)


_PAGES = [page for page in list_played_pages() if any(needs_cluster(block[2]) for block in page.list_blocks("console"))]


@pytest.fixture(autouse=True)
def gpus(site: Site) -> Iterator[None]:
    """Let the node advertise GPUs, which the examples request, until the end of the case."""
    require_gate_process(site)
    advertise(site.cluster, site.node, site.own | DONGLES | _GPUS)
    yield
    advertise(site.cluster, site.node, site.own | DONGLES)


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
def test_the_examples_of_a_page_print_what_it_shows(
    page: Page, site: Site, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    with (
        run_watching_gate(site, tmp_path / "gate", page.list_policies(), arguments=("--in-flight-bound=2s",)) as gate,
        create_namespace(site),
    ):
        terminal = Terminal(site, _NAMESPACE, tmp_path)
        for name, content in page.list_files().items():
            (tmp_path / name).write_text(content)

        def run(words: list[str]) -> str:
            printed = terminal.run(words)
            if printed.endswith(" created\n"):
                until("the pod is counted", lambda: is_settled(gate), _WITHIN)
            return printed

        now = play(page, run, needs_cluster)
    if pytestconfig.getoption("--record"):
        page.path.write_text(now)
    assert now == page.read()


def is_settled(gate: GateProcess) -> bool:
    """Return whether each reservation of the gate is counted in the used amounts."""
    lines = [line for line in gate.metrics().splitlines() if line.startswith("tallygate_cap_reservations{")]
    return bool(lines) and not any(float(line.rpartition(" ")[2]) for line in lines)
