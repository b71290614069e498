"""cert-manager as two processes of this machine, with its kinds in the cluster for as long as they run."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from e2e.go_program import GoProgram
from e2e.installation.third_party_kinds import CERT_MANAGER_MODULE, install_kinds, module_folder
from e2e.local.component import Component, Launch
from e2e.ports import Cluster

# Of Go alone, so that it needs no library of the image that it runs in.
CERT_MANAGER: Final = GoProgram("cert-manager", "cert-manager", ".", Path(__file__).parent, ("netgo", "osusergo"))


@contextmanager
def run_cert_manager(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Its controllers and its CA injector, as administrator; what they log is in a folder.

    Raises:
        BuildError: if it is not built and cannot be, or its definitions cannot be had.
        ClusterError: if the API server refuses a definition.
    """
    program = str(CERT_MANAGER.program())
    folder.mkdir(parents=True)
    files = sorted((module_folder(CERT_MANAGER_MODULE) / "deploy" / "crds").glob("*.yaml"))
    with install_kinds(cluster, files), ExitStack() as ends:
        for part in ("controller", "cainjector"):
            launch = Launch(part, (program, part), ready="")
            component = Component(launch, folder, {**cluster.environment, "KUBECONFIG": str(cluster.kubeconfig)})
            ends.callback(component.stop)
        yield
