"""NodePools and NodeClaims as Karpenter defines them, by the definitions of its Go module, without its controller."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from e2e.api import Api, api
from e2e.errors import BuildError
from e2e.ports import Cluster, NotHereError
from e2e.waiting import until
from e2e.workload_kinds.modules import KARPENTER, read_definitions_of

KARPENTER_ROOT: Final = "/apis/karpenter.sh/v1"

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WITHIN = 240.0  # seconds


@contextmanager
def serve_karpenter(cluster: Cluster) -> Iterator[None]:
    """Define both kinds for as long as the block runs; they are served when it begins.

    Raises:
        NotHereError: if the module cannot be had.
        ClusterError: if the API server refuses a definition.
    """
    try:
        definitions = read_definitions_of(KARPENTER)
    except BuildError as error:
        raise NotHereError(str(error)) from None
    ours = api(cluster.kubeconfig)
    for each in definitions:
        ours.create(_DEFINITIONS, each)
    try:
        until("NodePools and NodeClaims are served", lambda: _is_served(ours), _WITHIN)
        yield
    finally:
        for each in definitions:
            ours.delete(f"{_DEFINITIONS}/{each['metadata']['name']}")
        paths = [f"{_DEFINITIONS}/{each['metadata']['name']}" for each in definitions]
        until("neither is defined", lambda: not any(ours.ask("GET", path).is_done for path in paths), _WITHIN)


def _is_served(ours: Api) -> bool:
    return all(ours.ask("GET", f"{KARPENTER_ROOT}/{plural}").is_done for plural in ("nodepools", "nodeclaims"))
