"""The gate registered with the API server, and not: as a user does it, and proven by what the API server then does."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

from e2e.errors import ClusterError
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Gate
from e2e.said import said
from e2e.waiting import until
from webhook.admission.change import Phase
from webhook.admission.registration import registration

_ROOT = Path(__file__).parent.parent
_WITHIN = 120.0  # seconds, until the API server has taken a configuration up; it takes milliseconds
_SECONDS = 240.0  # for a command of tallygate
_KINDS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
_NAME = "tallygate"

_OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-probes"
_REFUSED = "1500m"  # of it: by the shipped rules, and not by the API server


def register(cluster: Cluster, gate: Gate, failure_policy: str = "Fail") -> None:
    """Register both webhooks of a running gate; return once both are called.

    Where neither was registered before, they are called as they are registered here, whatever was there earlier.

    Raises:
        ClusterError: the API server refuses them, or does not call them in time.
    """
    for configuration in registration(gate.reached, failure_policy=failure_policy):
        _applied(cluster, configuration)
    publish(cluster, gate)
    until("the API server asks in both phases", partial(_asks, cluster, gate, f"probe-{uuid4().hex}"), _WITHIN)


@contextmanager
def registered(cluster: Cluster, gate: Gate, failure_policy: str = "Fail") -> Iterator[None]:
    """A running gate, registered for as long as the block runs, with the shipped policies when it begins and ends.

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


def publish(cluster: Cluster, gate: Gate) -> None:
    """Let the API server trust the gate's authorities, by `tallygate certs publish`.

    Raises:
        ClusterError: the command fails; the text is what it says.
    """
    command = [sys.executable, "-m", "webhook.cli", "certs", "publish", str(gate.certificates)]
    environment = {**os.environ, **cluster.environment, "PYTHONPATH": str(_ROOT)}
    done = subprocess.run(  # noqa: S603  ours, and no shell
        [*command, f"--kubeconfig={cluster.kubeconfig}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    if done.returncode:
        raise ClusterError(done.stderr.strip())


def unregister(cluster: Cluster) -> None:
    """Take both away; return once neither is called, which is seen while the shipped policies are in force.

    Nothing happens when they are not there.

    Raises:
        ClusterError: the API server does not answer, or still calls them.
    """
    said(cluster, "delete", ",".join(_KINDS), _NAME, "--ignore-not-found")
    until("the API server asks nobody", lambda: _stores(cluster, "probe", _REFUSED), _WITHIN)


def _applied(cluster: Cluster, configuration: dict[str, object]) -> None:
    said(cluster, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(configuration))


def _asks(cluster: Cluster, gate: Gate, name: str) -> bool:
    """Whether the gate is asked in both phases about a pod of this name."""
    _stores(cluster, name, "1")
    lines = [line for line in gate.log().splitlines() if name in line]
    return all(any(f'"phase":"{phase}"' in line for line in lines) for phase in Phase)


def _stores(cluster: Cluster, name: str, amount: str) -> bool:
    """Whether a pod that asks for so much would be stored."""
    asks = {_OPAQUE: amount}
    container = {"name": "main", "image": "none", "resources": {"requests": asks, "limits": asks}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container]},
    }
    return cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod)).returncode == 0
