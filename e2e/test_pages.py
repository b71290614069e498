"""The examples of docs/ that need a cluster: commands of kubectl, with the policies and the files of the page."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.api import Object, api
from e2e.command_output import run_kubectl, run_tallygate
from e2e.definitions import apply_definitions
from e2e.errors import BuildError
from e2e.extra_gates import require_gate_process, run_ledger_gate, run_watching_gate
from e2e.gates.asks import AskServer, create_ask_token, provide_asks_account
from e2e.gates.process import GateProcess
from e2e.namespaces import gates_namespace, until_it_takes_pods
from e2e.node_resources import DONGLES, advertise
from e2e.ports import Cluster, NotHereError, Site
from e2e.registering import register
from e2e.tenant import Tenant
from e2e.terminal import Terminal
from e2e.waiting import until
from e2e.workload_kinds.modules import TRAINING
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.admission.workload_resources import select_resources
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.state.kubernetes.ask_address_store import ASK_NAME
from tests.pages.page import Page
from tests.pages.page_examples import is_offline, list_played_pages, play

_NAMESPACE = "team-a"
_GROUP, _VERSION, _JOBS = "kubeflow.org", "v1", "pytorchjobs"
_ROLE: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "edit-pytorchjobs", "labels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
    "rules": [{"apiGroups": [_GROUP], "resources": [_JOBS], "verbs": ["*"]}],
}
_PAGE_URL = "--page-url=https://gate.example.com"
_GPUS = {"nvidia.com/gpu": "8"}
_OF_TENANTS = frozenset({"tasks/for-developers.md"})
"""The pages whose commands a tenant types, who is answered by a server of asks."""

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


def _hide_moving(printed: str) -> str:
    """Return an output with the address, the times and the revision of an answer as they stand in the page."""
    printed = re.sub(r"https://127\.0\.0\.1:[0-9]+", f"https://{ASK_NAME}.{DEFAULT_NAMESPACE}.svc:443", printed)
    printed = re.sub(r"revision [0-9]+", "revision 4711", printed)
    return re.sub(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", "2026-11-29T12:00:00Z", printed)


@contextmanager
def _serve_training_jobs(cluster: Cluster) -> Iterator[None]:
    """Serve PyTorchJobs by the definition of their project, to everyone who may edit, until the end of the block."""
    try:
        file = TRAINING.find_folder() / "manifests" / "base" / "crds" / f"{_GROUP}_{_JOBS}.yaml"
    except BuildError as error:
        raise NotHereError(str(error)) from None
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    ours = api(cluster.kubeconfig)
    try:
        apply_definitions(cluster, [file], "--server-side")
        ours.create(roles, _ROLE)
        yield
    finally:
        ours.delete(f"{roles}/{_ROLE['metadata']['name']}")
        run_kubectl(cluster, "delete", "--ignore-not-found", f"--filename={file}")


def _register_for_training_jobs(cluster: Cluster, gate: GateProcess) -> None:
    """Let the API server ask the gate about PyTorchJobs too."""
    served = {(_GROUP, _VERSION, _JOBS): True}
    register(cluster, gate, workload_resources=select_resources(KNOWN_KINDS, served))


def _create_training_pods(cluster: Cluster) -> None:
    """Create the pods of the PyTorchJob, as its operator does."""
    ours = api(cluster.kubeconfig)
    job = ours.get(f"/apis/{_GROUP}/{_VERSION}/namespaces/{_NAMESPACE}/{_JOBS}/train")
    name = job["metadata"]["name"]
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": name,
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    for role, replicas in job["spec"]["pytorchReplicaSpecs"].items():
        spec = {**replicas["template"]["spec"], "restartPolicy": replicas["restartPolicy"]}
        for index in range(replicas["replicas"]):
            metadata = {"name": f"{name}-{role.lower()}-{index}", "ownerReferences": [owner]}
            ours.create(f"/api/v1/namespaces/{_NAMESPACE}/pods", {"metadata": metadata, "spec": spec})


def _check_link(site: Site, asks: AskServer, printed: str) -> None:
    """Follow the link of a denial as the tenant: it shows his cap."""
    (path,) = set(re.findall(r"see https://gate\.example\.com(/\S+)", printed))
    token = create_ask_token(site.cluster, _NAMESPACE, "tenant", "tallygate")
    with asks.open_client(token) as client:
        shown = client.get(path)
    assert "nvidia.com/gpu: 0 used, 4 free of 4" in shown.text, shown.text


@contextmanager
def _run_asks(site: Site, folder: Path, gate: GateProcess) -> Iterator[tuple[Path, AskServer]]:
    """Run a server of asks that every user finds; yield the kubeconfig of a tenant once it answers him, and it."""
    someone = Tenant(site.cluster, _NAMESPACE, folder)
    with (
        provide_asks_account(site.cluster, folder) as account,
        AskServer(folder / "asks", account, gate.policies, arguments=("--page=on",)) as asks,
    ):
        asks.publish(site.cluster)
        ask = ("usage", "--kubeconfig", str(someone.kubeconfig), "-n", _NAMESPACE)
        until("he is answered", lambda: run_tallygate(site.cluster, *ask).returncode == 0, _WITHIN, asks.log)
        yield someone.kubeconfig, asks


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_print_what_it_shows(
    page: Page, site: Site, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    play_page = _play_as_tenant if page.name in _OF_TENANTS else _play_as_admin
    now = play_page(page, site, tmp_path)
    if pytestconfig.getoption("--record"):
        page.path.write_text(now)
    assert now == page.read()


def _play_as_admin(page: Page, site: Site, folder: Path) -> str:
    """Return the text of a page whose commands an administrator types."""
    arguments = ("--in-flight-bound=2s",)
    with (
        run_watching_gate(site, folder / "gate", page.list_policies(), arguments=arguments) as gate,
        create_namespace(site),
    ):
        terminal = _open_terminal(page, site, folder)

        def run(words: list[str]) -> str:
            printed = terminal.run(words)
            _settle(gate, printed)
            return printed

        return play(page, run, needs_cluster)


def _play_as_tenant(page: Page, site: Site, folder: Path) -> str:
    """Return the text of a page whose commands a tenant types, in a cluster with PyTorchJobs."""
    policies, gates = page.list_policies(), gates_namespace(site.cluster)
    with (
        _serve_training_jobs(site.cluster),
        run_ledger_gate(site, folder / "gate", policies, gates, further=(_PAGE_URL,)) as gate,
        create_namespace(site),
        _run_asks(site, folder, gate) as (user, asks),
    ):
        _register_for_training_jobs(site.cluster, gate)
        terminal = _open_terminal(page, site, folder, user)

        def run(words: list[str]) -> str:
            printed = terminal.run(words)
            if "denied the request" in printed:
                _check_link(site, asks, printed)
            if printed.startswith("pytorchjob") and printed.endswith(" created\n"):
                _create_training_pods(site.cluster)
            _settle(gate, printed)
            return _hide_moving(printed)

        return play(page, run, needs_cluster)


def _open_terminal(page: Page, site: Site, folder: Path, user: Path | None = None) -> Terminal:
    """Return a terminal with the files of a page."""
    terminal = Terminal(site, _NAMESPACE, folder, user)
    for name, content in page.list_files().items():
        (folder / name).write_text(content)
    return terminal


def _settle(gate: GateProcess, printed: str) -> None:
    """Wait until the gate has counted what a command created."""
    if printed.endswith(" created\n"):
        until("the pod is counted", lambda: is_settled(gate), _WITHIN)


def is_settled(gate: GateProcess) -> bool:
    """Return whether each reservation of the gate is counted in the used amounts."""
    lines = [line for line in gate.metrics().splitlines() if line.startswith("tallygate_cap_reservations_max{")]
    return bool(lines) and not any(float(line.rpartition(" ")[2]) for line in lines)
