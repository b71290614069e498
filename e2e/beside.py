"""Gates of a case's own, beside that of the site: they follow the cluster, and are registered in its place."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from e2e.gates.process import GateProcess
from e2e.ledgers import define_ledgers, forget_ledgers
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import NotHereError, Site
from e2e.registering import register, unregister


@contextmanager
def following_gate(
    site: Site,
    folder: Path,
    policies: Mapping[str, str],
    *,
    arguments: Sequence[str] = (),
    kubeconfig: Path | None = None,
) -> Iterator[GateProcess]:
    """A gate that follows the cluster, registered for as long as the block runs.

    `policies` are files beside the shipped ones, `arguments` more of its command line, and `kubeconfig` says as whom it
    asks the API server, if not as the administrator.

    Raises:
        NotHereError: the site's gate is no process on this machine.
        ClusterError: it does not start, or is not called.
    """
    see_that_gates_are_processes(site)
    follows = ("--cluster=kubeconfig", f"--kubeconfig={kubeconfig or site.cluster.kubeconfig}")
    gate = GateProcess(folder, arguments=(*follows, *arguments))
    gate.write_policies({**SHIPPED_FILES, **policies})
    with ExitStack() as ends:
        ends.callback(gate.stop)
        gate.start()
        ends.callback(unregister, site.cluster)
        register(site.cluster, gate)
        yield gate


@contextmanager
def keeping_gate(
    site: Site, folder: Path, policies: Mapping[str, str], namespace: str, kubeconfig: Path | None = None
) -> Iterator[GateProcess]:
    """The same, and it keeps its ledgers in a namespace of the cluster, where none are left afterwards.

    Raises:
        NotHereError: as `following_gate`.
        ClusterError: likewise.
    """
    see_that_gates_are_processes(site)
    define_ledgers(site.cluster)
    arguments = ("--ledgers=kubernetes", f"--namespace={namespace}", "--in-flight-bound=2s")
    with ExitStack() as ends:
        ends.callback(forget_ledgers, site.cluster, namespace)
        keeps = following_gate(site, folder, policies, arguments=arguments, kubeconfig=kubeconfig)
        yield ends.enter_context(keeps)


def see_that_gates_are_processes(site: Site) -> None:
    """See that a gate of a case's own can be started beside that of the site, before anything is made for it.

    Raises:
        NotHereError: the site's gate is no process on this machine.
    """
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("it is about a gate of its own, beside the one of the site")
