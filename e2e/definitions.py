"""Definitions of kinds, from files or Go modules: applied, and served once the API server says so."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.api import Api, Object, api
from e2e.command_output import run_kubectl
from e2e.errors import BuildError
from e2e.ports import Cluster, NotHereError
from e2e.waiting import until
from e2e.workload_kinds.modules import Module, read_definitions_of

_WITHIN = 240.0  # seconds
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def apply_definitions(cluster: Cluster, files: Iterable[Path], *options: str) -> None:
    """Apply what is in these files, with further options of kubectl; return once the definitions are established.

    `kubectl wait` ends at once for a definition that was made just now: its conditions are null.

    Raises:
        ClusterError: if the API server refuses one, or does not establish it in time.
    """
    arguments = [f"--filename={file}" for file in files]
    names = run_kubectl(cluster, "apply", "--output=name", *options, *arguments).split()
    for name in [each.partition("/")[2] for each in names if each.startswith("customresourcedefinition")]:
        path = f"{_DEFINITIONS}/{name}"
        until(f"{name} is established", lambda path=path: _is_established(cluster, path), _WITHIN)  # type: ignore[misc]


def _is_established(cluster: Cluster, path: str) -> bool:
    status: Object = api(cluster.kubeconfig).get(path).get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return conditions.get("Established") == "True"


@contextmanager
def serve_kinds_of(cluster: Cluster, *modules: Module) -> Iterator[None]:
    """Define the kinds of Go modules for as long as the block runs; they are served when it begins.

    Raises:
        NotHereError: if a module cannot be had.
        ClusterError: if the API server refuses a definition, or does not serve one in time.
    """
    try:
        definitions = [each for module in modules for each in read_definitions_of(module)]
    except BuildError as error:
        raise NotHereError(str(error)) from None
    ours = api(cluster.kubeconfig)
    created: list[str] = []
    try:
        for each in definitions:
            ours.create(_DEFINITIONS, each)
            created.append(f"{_DEFINITIONS}/{each['metadata']['name']}")
        until("the kinds are served", lambda: all(_is_served(ours, each) for each in definitions), _WITHIN)
        yield
    finally:
        for path in created:
            ours.delete(path)
        until("no kind is defined", lambda: not any(ours.ask("GET", path).is_done for path in created), _WITHIN)


def _is_served(ours: Api, definition: Object) -> bool:
    spec = definition["spec"]
    paths = [
        f"/apis/{spec['group']}/{each['name']}/{spec['names']['plural']}" for each in spec["versions"] if each["served"]
    ]
    return all(ours.ask("GET", path).is_done for path in paths)
