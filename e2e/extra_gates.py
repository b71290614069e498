"""Further gates of a case, which watch the cluster and are registered in place of the site's gate."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path

from e2e.api import api
from e2e.gates.process import GateProcess
from e2e.ledgers import define_ledgers, delete_ledgers
from e2e.pods import Pod
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, NotHereError, Site
from e2e.registering import register, unregister
from e2e.waiting import until
from tallygate.admission.match_conditions import MatchConditions
from tallygate.policy.parse import parse

_WITHIN = 240.0  # seconds


@contextmanager
def run_watching_gate(  # noqa: PLR0913  # options, each by its name
    site: Site,
    folder: Path,
    policies: Mapping[str, str],
    *,
    arguments: Sequence[str] = (),
    kubeconfig: Path | None = None,
    is_conditioned: bool = False,
) -> Iterator[GateProcess]:
    """Run a gate that watches the cluster, and register it for as long as the block runs.

    `policies` are files beside the shipped ones, `arguments` further ones of its command line, and `kubeconfig` is the
    user of the gate, if not the administrator. If it `is_conditioned`, it is asked about what its policies concern, and
    else about everything.

    Raises:
        NotHereError: if the site's gate is no process on this machine.
        ClusterError: if it does not start, or is not called.
    """
    require_gate_process(site)
    follows = ("--cluster=kubeconfig", f"--kubeconfig={kubeconfig or site.cluster.kubeconfig}")
    gate = GateProcess(folder, arguments=(*follows, *arguments))
    gate.write_policies({**SHIPPED_FILES, **policies})
    with ExitStack() as ends:
        ends.callback(gate.stop)
        gate.start()
        if kubeconfig is None:
            until_listed(gate)
        ends.callback(unregister, site.cluster)
        conditions = _read_conditions({**SHIPPED_FILES, **policies}) if is_conditioned else None
        register(site.cluster, gate, conditions=conditions)
        yield gate


def _read_conditions(policies: Mapping[str, str]) -> MatchConditions:
    return MatchConditions(parse([(name, text.encode()) for name, text in policies.items()]).policies)


def until_listed(gate: GateProcess) -> None:
    """Wait until the gate has listed all that it watches: it is ready before it has seen nodes, pools and quotas.

    Raises:
        ClusterError: if it takes too long.
    """
    until("all is listed", lambda: not _list_stale(gate), _WITHIN, lambda: f"{_list_stale(gate)}")


def _list_stale(gate: GateProcess) -> list[str]:
    watches = gate.readiness()["checks"]["watches"]
    return [f"{name}: {each['stale']}" for name, each in watches.items() if isinstance(each, dict) and "stale" in each]


def until_cap_is_active(cluster: Cluster, namespace: str, large: Pod) -> None:
    """Wait until a cap rejects a pod that it never allows, in a dry run: no pod is accepted before the cap applies.

    Raises:
        ClusterError: if it takes too long.
    """
    path, query = f"/api/v1/namespaces/{namespace}/pods", {"dryRun": "All"}
    ask = partial(api(cluster.kubeconfig).ask, "POST", path, large, query=query)
    until("the cap is active", lambda: ask().status == HTTPStatus.FORBIDDEN, _WITHIN)


@contextmanager
def run_ledger_gate(  # noqa: PLR0913, PLR0917  # where it runs, and what it has
    site: Site,
    folder: Path,
    policies: Mapping[str, str],
    namespace: str,
    kubeconfig: Path | None = None,
    further: Sequence[str] = (),
) -> Iterator[GateProcess]:
    """Run the same with its ledgers in a namespace of the cluster, and further arguments; delete them afterwards.

    Raises:
        NotHereError: as `following_gate`.
        ClusterError: likewise.
    """
    require_gate_process(site)
    define_ledgers(site.cluster)
    arguments = ("--ledgers=kubernetes", f"--namespace={namespace}", "--in-flight-bound=2s", *further)
    with ExitStack() as ends:
        ends.callback(delete_ledgers, site.cluster, namespace)
        keeps = run_watching_gate(site, folder, policies, arguments=arguments, kubeconfig=kubeconfig)
        yield ends.enter_context(keeps)


def require_gate_process(site: Site) -> None:
    """Check that a gate of a case's own can run beside that of the site, before anything is created for it.

    Raises:
        NotHereError: if the site's gate is no process on this machine.
    """
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("it is about a gate of its own, beside the one of the site")
