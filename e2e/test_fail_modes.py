"""The gate away, or too slow: the effect of its `failurePolicy`, and what works regardless of it."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import CompletedProcess
from uuid import uuid4

import pytest

from e2e.api import api
from e2e.namespaces import gates_namespace, until_it_takes_pods
from e2e.pods import create, list_stored, pod, submit
from e2e.ports import Cluster, Gate, Site
from e2e.registering import keep_registered
from e2e.waiting import until
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE, UrlTarget

_BAD_NAME = "Bad_Name!"  # for a resource; Kubernetes stores it in a node
_WITHIN = 240.0  # seconds, for the gate to answer again
_TIMEOUT = 5.0  # seconds that the API server waits for each phase, as registered
_REFUSED = (
    "spec.containers[0].resources.requests[example.com/dongle]: 1500m is not a whole number; "
    "example.com/dongle is counted in whole units: request 1 or 2 (TG101, rule whole-units"
)
# A Service's address refuses the connection too, by a rule of kube-proxy; which says so first depends on its pace.
_AWAY = re.compile(r"dial tcp [\d.]+:\d+: connect: connection refused|no endpoints available for service \"\w+\"")


@pytest.fixture
def failing(site: Site, running_gate: Gate) -> Iterator[Gate]:
    """Run the gate, registered with failurePolicy Fail."""
    with keep_registered(site.cluster, running_gate, "Fail"):
        yield running_gate


@pytest.fixture
def ignoring(site: Site, running_gate: Gate) -> Iterator[Gate]:
    """Run the gate, registered with failurePolicy Ignore."""
    with keep_registered(site.cluster, running_gate, "Ignore"):
        yield running_gate


@contextmanager
def _stop(gate: Gate) -> Iterator[None]:
    gate.stop()
    try:
        yield
    finally:
        gate.start()


def _says_that_the_gate_failed(done: CompletedProcess[str], gate: Gate, why: re.Pattern[str] | str) -> bool:
    """Return whether kubectl names the failed webhook, its address and `why`; a complete pod is sent to this one."""
    reached = gate.reached
    base = (
        reached.base
        if isinstance(reached, UrlTarget)
        else f"https://{reached.name}.{reached.namespace}.svc:{reached.port}"
    )
    start = (
        'Error from server (InternalError): error when creating "STDIN": Internal error occurred: '
        'failed calling webhook "validate.tallygate.dev": failed to call webhook: '
        f'Post "{base}/v1/admit/validate?timeout=5s": '
    )
    assert done.stderr.startswith(start)
    return re.fullmatch(why, done.stderr.removeprefix(start).rstrip("\n")) is not None


def _is_rejected_by_kubernetes(done: CompletedProcess[str], name: str) -> bool:
    """Return whether kubectl prints what it prints of one and a half dongles without a gate."""
    return done.stderr == (
        f'The Pod "{name}" is invalid: \n'
        '* spec.containers[0].resources.limits[example.com/dongle]: Invalid value: "1500m": must be an integer\n'
        '* spec.containers[0].resources.requests[example.com/dongle]: Invalid value: "1500m": must be an integer\n'
    )


def _is_rejected_by_the_gate(done: CompletedProcess[str], name: str) -> bool:
    return done.stderr.startswith(f'The Pod "{name}" is invalid: {_REFUSED}')


def _goes_on(site: Site, namespace: str) -> None:
    """Check that requests are evaluated as before."""
    half = "half-afterwards"
    until("the gate is asked", lambda: "rule whole-units" in submit(site, namespace, half, "1500m").rejection, _WITHIN)
    assert _is_rejected_by_the_gate(create(site, namespace, half, "1500m"), half)
    assert create(site, namespace, "afterwards").stderr == ""
    assert "afterwards" in list_stored(site, namespace)


def test_under_fail_nothing_is_stored_while_the_gate_is_away(site: Site, failing: Gate, namespace: str) -> None:
    with _stop(failing):
        assert _says_that_the_gate_failed(create(site, namespace, "fine"), failing, _AWAY)
        assert list_stored(site, namespace) == set()
    _goes_on(site, namespace)


def test_under_ignore_kubernetes_decides_alone_while_the_gate_is_away(
    site: Site, ignoring: Gate, namespace: str
) -> None:
    with _stop(ignoring):
        assert create(site, namespace, "fine").stderr == ""
        assert _is_rejected_by_kubernetes(create(site, namespace, "half", "1500m"), "half")
        assert list_stored(site, namespace) == {"fine"}
    _goes_on(site, namespace)


def test_under_fail_the_api_server_waits_for_a_slow_gate_once(site: Site, failing: Gate, namespace: str) -> None:
    with failing.freeze():
        start = time.monotonic()
        # Of the validating phase: a wait in the mutating one would have ended the request.
        assert _says_that_the_gate_failed(create(site, namespace, "fine"), failing, "context deadline exceeded")
        assert time.monotonic() - start >= _TIMEOUT
        assert list_stored(site, namespace) == set()
    _goes_on(site, namespace)


def test_under_ignore_the_api_server_waits_for_a_slow_gate_in_each_phase_that_it_calls(
    site: Site, ignoring: Gate, namespace: str
) -> None:
    incomplete = pod(site, "incomplete")
    del incomplete["spec"]["containers"][0]["resources"]["limits"]
    incomplete["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1m"}
    with ignoring.freeze():
        before, start = _count_failed_open(site.cluster), time.monotonic()
        assert create(site, namespace, "complete").stderr == ""
        assert time.monotonic() - start >= _TIMEOUT
        between, start, manifest = _count_failed_open(site.cluster), time.monotonic(), json.dumps(incomplete)
        done = site.cluster.kubectl("create", f"--namespace={namespace}", "--filename=-", stdin=manifest)
        assert done.stderr == ""
        assert time.monotonic() - start >= 2 * _TIMEOUT
        assert between - before == Counter({"validate.tallygate.dev": 1})
        assert _count_failed_open(site.cluster) - between == Counter(["mutate.tallygate.dev", "validate.tallygate.dev"])
    _goes_on(site, namespace)


def _count_failed_open(cluster: Cluster) -> Counter[str]:
    """Count how often each webhook failed open, by the API server's own metric."""
    text = api(cluster.kubeconfig).ask("GET", "/metrics").body
    counted = r"^apiserver_admission_webhook_fail_open_count\{name=\"([^\"]+)\".*\} (\d+)$"
    found = re.findall(counted, text, re.MULTILINE)
    return Counter({name: int(count) for name, count in found})


def test_changes_that_are_not_evaluated_are_accepted_while_the_gate_is_away(
    site: Site, failing: Gate, namespace: str
) -> None:
    assert create(site, namespace, "fine").stderr == ""
    with _stop(failing):
        annotated = site.cluster.kubectl("annotate", f"--namespace={namespace}", "pod/fine", "by=a-controller")
        assert (annotated.stdout, annotated.stderr) == ("pod/fine annotated\n", "")
        deleted = site.cluster.kubectl("delete", f"--namespace={namespace}", "pod/fine", "--now")
        assert deleted.returncode == 0, deleted.stderr
        assert list_stored(site, namespace) == set()


@pytest.mark.parametrize("excluded", ["kube-system", DEFAULT_NAMESPACE])
def test_the_clusters_namespace_and_the_gates_own_take_pods_while_the_gate_is_away(
    site: Site, failing: Gate, namespace: str, excluded: str
) -> None:
    name = f"excluded-{uuid4().hex[:8]}"
    gates_namespace(site.cluster)
    until_it_takes_pods(site.cluster, excluded)
    with _stop(failing):
        assert create(site, namespace, name).returncode == 1
        made = create(site, excluded, name)
        assert (made.stdout, made.stderr) == (f"pod/{name} created\n", "")
    api(site.cluster.kubeconfig).delete(f"/api/v1/namespaces/{excluded}/pods/{name}", gracePeriodSeconds="1")


@pytest.fixture
def machine(cluster: Cluster) -> Iterator[str]:
    """Yield the name of a node that does not exist yet."""
    name = f"machine-{uuid4().hex[:8]}"
    yield name
    api(cluster.kubeconfig).delete(f"/api/v1/nodes/{name}")


def _registers(cluster: Cluster, name: str, resource: str = "example.com/dongle") -> CompletedProcess[str]:
    """Create a node with its capacity, as a kubelet does first."""
    has = {"cpu": "4", "memory": "8Gi", "pods": "110", resource: "4"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": has}}
    return cluster.kubectl("create", "--filename=-", stdin=json.dumps(node))


def _patch_status(cluster: Cluster, name: str, status: dict[str, object]) -> CompletedProcess[str]:
    patch = json.dumps({"status": status})
    return cluster.kubectl("patch", "node", name, "--subresource=status", "--type=strategic", f"--patch={patch}")


def _beat(cluster: Cluster, name: str) -> CompletedProcess[str]:
    """Report a node as ready, as a kubelet does now and then."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
    return _patch_status(cluster, name, {"conditions": [ready]})


def test_nodes_register_and_beat_while_the_gate_is_away_under_fail(
    cluster: Cluster, failing: Gate, machine: str
) -> None:
    with _stop(failing):
        created = _registers(cluster, machine, _BAD_NAME)
        assert (created.stdout, created.stderr) == (f"node/{machine} created\n", "")
        assert _beat(cluster, machine).stderr == ""
        more = _patch_status(cluster, machine, {"capacity": {"example.com/dongle": "8"}})
        assert (more.stdout, more.stderr) == (f"node/{machine} patched\n", "")


def test_a_nodes_heartbeat_does_not_wait_for_a_slow_gate(cluster: Cluster, failing: Gate, machine: str) -> None:
    assert _registers(cluster, machine).stderr == ""
    with failing.freeze():
        before = _count_failed_open(cluster)
        assert _beat(cluster, machine).stderr == ""
        assert _count_failed_open(cluster) == before  # nodes are let go on whatever the gate's failurePolicy is


@pytest.mark.usefixtures("failing")
def test_nodes_are_evaluated_while_the_gate_runs(cluster: Cluster, machine: str) -> None:
    done = _registers(cluster, machine, _BAD_NAME).stderr
    assert done.startswith(f'The Node "{machine}" is invalid: \n* status.allocatable[{_BAD_NAME}]: ')
    assert done.endswith(" (TG102, rule well-formed-names)\n")
