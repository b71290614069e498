"""The registration of the gate with the API server: made as a user makes it, and proven by the API server's calls."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from e2e.api import JSON, api
from e2e.errors import ClusterError
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Gate
from e2e.waiting import until
from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.request import Phase
from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, WebhookTarget
from tallygate.admission.workload_resources import WorkloadResource
from tallygate.kube.config import load_kubeconfig
from tallygate_certs.ca_bundle import publish_bundle as publish_trust
from tallygate_certs.ca_bundle import read_ca_bundle
from tallygate_certs.cluster_access import create_client
from tallygate_certs.errors import CertsError
from tests.admission.plain_configurations import create_plain_configurations

CONFIGURATIONS = {
    kind: f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/{CONFIGURATION_NAME}"
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
"""The paths of both, by kind."""

_WITHIN = 120.0  # seconds, until the API server has loaded a configuration; it takes milliseconds
_OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-probes"
_REFUSED = "1500m"  # of it: by the shipped rules, and not by the API server


class CalledGate(Protocol):
    """The part of a gate that its registration needs."""

    @property
    def reached(self) -> WebhookTarget:
        """The target by which the API server calls it."""
        ...

    @property
    def certificates(self) -> Path:
        """The folder of its certificates, as `tallygate certs` keeps it."""
        ...

    def log(self) -> str:
        """Return its log, as far as it is available."""
        ...


def register(
    cluster: Cluster,
    gate: CalledGate,
    failure_policy: str = "Fail",
    workload_resources: Sequence[WorkloadResource] = (),
    *,
    conditions: MatchConditions | None = None,
) -> None:
    """Register both webhooks of a running gate; return once both are called.

    Where neither was registered before, they are called as they are registered here. `workload_resources` are those of
    other projects, `conditions` those of the policies; without them the gate is asked about everything.

    Raises:
        ClusterError: if the API server refuses them, or does not call them in time.
    """
    for each in create_plain_configurations(
        gate.reached,
        failure_policy=failure_policy,
        workload_resources=workload_resources,
        conditions=conditions,
    ):
        api(cluster.kubeconfig).apply(CONFIGURATIONS[each["kind"]], each)
    publish(cluster, gate)
    until("the API server asks in both phases", partial(_asks, cluster, gate, f"probe-{uuid4().hex}"), _WITHIN)


def set_timeout(cluster: Cluster, seconds: int) -> None:
    """Set how long the API server waits for an answer of each webhook.

    Raises:
        ClusterError: if the API server refuses the change.
    """
    ours = api(cluster.kubeconfig)
    for path in CONFIGURATIONS.values():
        webhooks = range(len(ours.get(path)["webhooks"]))
        patch = [{"op": "replace", "path": f"/webhooks/{at}/timeoutSeconds", "value": seconds} for at in webhooks]
        ours.patch(path, patch, JSON)


@contextmanager
def keep_registered(cluster: Cluster, gate: Gate, failure_policy: str = "Fail") -> Iterator[None]:
    """Keep a running gate registered for as long as the block runs, with the shipped policies when it begins and ends.

    Raises:
        ClusterError: as `register` and `unregister`.
    """
    gate.write_policies(SHIPPED_FILES)
    try:
        register(cluster, gate, failure_policy)
        yield
    finally:
        gate.write_policies(SHIPPED_FILES)
        unregister(cluster)


def publish(cluster: Cluster, gate: CalledGate) -> None:
    """Publish the gate's authorities to the API server, as `tallygate certs publish` does, in this process.

    Raises:
        ClusterError: if that cannot be done.
    """
    try:
        with closing(create_client(load_kubeconfig(cluster.kubeconfig))) as client:
            for _ in publish_trust(client, CONFIGURATION_NAME, read_ca_bundle(gate.certificates, datetime.now(UTC))):
                pass
    except CertsError as error:
        raise ClusterError(str(error)) from None


def unregister(cluster: Cluster) -> None:
    """Delete both; return once neither is called, which shows while the shipped policies are active.

    Nothing happens if they do not exist.

    Raises:
        ClusterError: if the API server does not answer, or still calls them.
    """
    for each in CONFIGURATIONS.values():
        api(cluster.kubeconfig).delete(each)
    until("the API server calls no gate", lambda: _stores(cluster, "probe", _REFUSED), _WITHIN)


def _asks(cluster: Cluster, gate: CalledGate, name: str) -> bool:
    """Return whether the gate is called in both phases for a pod of this name."""
    _stores(cluster, name, "1")
    lines = [line for line in gate.log().splitlines() if name in line]
    return all(any(f'"phase":"{phase}"' in line for line in lines) for phase in Phase)


def _stores(cluster: Cluster, name: str, amount: str) -> bool:
    """Return whether a pod with this request would be stored."""
    asks = {_OPAQUE: amount}
    container = {"name": "main", "image": "none", "resources": {"requests": asks, "limits": asks}}
    pod = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    pods = "/api/v1/namespaces/default/pods"
    return api(cluster.kubeconfig).ask("POST", pods, pod, query={"dryRun": "All"}).is_done
