"""Caps by what is allocated: devices of two models, counted by an attribute, and the sum of their memory.

Devices come from a slice, and the real scheduler allocates them. A rejected allocation leaves its pod Pending.
"""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from e2e.api import Object, api
from e2e.claims import GROUP, ROOT, claim, claim_template, claiming_pod, count_devices
from e2e.command_output import run_tallygate
from e2e.extra_gates import run_ledger_gate
from e2e.gates.process import GateProcess
from e2e.ledgers import get_ledgers_path
from e2e.namespaces import new_namespace
from e2e.ports import Site
from e2e.tenant import Tenant, tenant
from e2e.waiting import until

_WITHIN = 120.0  # seconds
_DRIVER = "models.tallygate.example"
_CLASS = "tallygate-models"
_MODELS = {"h-0": ("h100", "80Gi"), "h-1": ("h100", "80Gi"), "a-0": ("a100", "40Gi"), "a-1": ("a100", "40Gi")}
_BOTH = {"h100": 1, "gpu-memory": 120 << 30}
_OVER = "cap models of this namespace exceeded"
_POLICIES = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: models}}
spec:
  namespaces: {{selector: {{matchLabels: {{models: one-h100}}}}}}
  hard: {{h100: 1, gpu-memory: 120Gi}}
  devices:
    h100: {{selector: 'device.attributes["{_DRIVER}"].model == "h100"'}}
    gpu-memory: {{sum: memory}}
"""


@pytest.fixture(scope="module")
def model_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate with its ledgers in the cluster, on a node with two devices of each model."""
    ours, folder = api(site.cluster.kubeconfig), tmp_path_factory.mktemp("models") / "gate"
    made = [_device_class(), _slice(site.node)]
    for each in made:
        ours.create(ours.collection(each, ""), each)
    try:
        with (
            new_namespace(site.cluster, "gate-") as own,
            run_ledger_gate(site, folder, {"models.yaml": _POLICIES}, own) as gate,
        ):
            yield gate
    finally:
        for each in made:
            ours.delete(f"{ours.collection(each, '')}/{each['metadata']['name']}")


@pytest.fixture
def dev(site: Site, model_gate: GateProcess, tmp_path: Path) -> Iterator[Tenant]:
    """Yield a tenant whose namespace may have one device of the larger model, and 120Gi in all."""
    assert model_gate.runs
    with tenant(site.cluster, tmp_path, models="one-h100") as made:
        yield made


def _device_class() -> Object:
    selectors = [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]
    return {
        "apiVersion": GROUP,
        "kind": "DeviceClass",
        "metadata": {"name": _CLASS},
        "spec": {"selectors": selectors},
    }


def _slice(node: str) -> Object:
    devices = [
        {"name": name, "attributes": {"model": {"string": model}}, "capacity": {"memory": {"value": memory}}}
        for name, (model, memory) in _MODELS.items()
    ]
    pool = {"name": f"models-{node}", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": GROUP,
        "kind": "ResourceSlice",
        "metadata": {"name": f"tallygate-models-{node}"},
        "spec": {"driver": _DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


def _request_devices(model: str, count: int = 1) -> Object:
    selectors = [{"cel": {"expression": f'device.attributes["{_DRIVER}"].model == "{model}"'}}]
    return {"name": "gpu", "exactly": {"deviceClassName": _CLASS, "selectors": selectors, "count": count}}


def _request(dev: Tenant, site: Site, name: str, model: str) -> None:
    """Create a claim for a device of a model, and a pod with it."""
    assert dev.create(claim(name, _request_devices(model))).is_done
    assert dev.create(claiming_pod(site.image, name, resourceClaimName=name)).is_done


def _is_placed(dev: Tenant, site: Site, name: str) -> bool:
    pod = api(site.cluster.kubeconfig).get(f"{dev.pods}/{name}")
    return "nodeName" in pod["spec"]


def _read_condition(dev: Tenant, site: Site, name: str) -> str:
    """Return the message of the condition PodScheduled of a pod."""
    pod = api(site.cluster.kubeconfig).get(f"{dev.pods}/{name}")
    conditions = pod.get("status", {}).get("conditions", ())
    return "".join(each.get("message", "") for each in conditions if each["type"] == "PodScheduled")


def _read_warnings(dev: Tenant, manifest: Object) -> str:
    """Create an object in a dry run, and return the warnings that kubectl shows."""
    done = dev.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(manifest))
    assert done.returncode == 0, done.stderr
    return done.stderr


def _delete(dev: Tenant, name: str) -> None:
    dev.api.delete(f"{dev.pods}/{name}", gracePeriodSeconds="0")
    dev.api.delete(f"{ROOT}/namespaces/{dev.namespace}/resourceclaims/{name}")


def test_a_second_device_of_a_model_stays_unallocated_until_the_first_is_free(site: Site, dev: Tenant) -> None:
    _request(dev, site, "first", "h100")
    until("the first pod is placed", lambda: _is_placed(dev, site, "first"), _WITHIN)
    _request(dev, site, "second", "h100")
    until("the condition has the reason", lambda: _OVER in _read_condition(dev, site, "second"), _WITHIN)
    assert "allocated 1 h100, charged to others 1, hard 1, free 0" in _read_condition(dev, site, "second")
    assert count_devices(site.cluster, dev.namespace) == 1
    _delete(dev, "first")
    until("the second pod is placed", lambda: _is_placed(dev, site, "second"), _WITHIN)


def test_devices_of_the_other_model_are_allocated_until_their_memory_is_over_the_cap(site: Site, dev: Tenant) -> None:
    _request(dev, site, "large", "h100")
    until("the large device is allocated", lambda: _is_placed(dev, site, "large"), _WITHIN)
    _request(dev, site, "small", "a100")
    until("the small device is allocated", lambda: _is_placed(dev, site, "small"), _WITHIN)
    _request(dev, site, "one-more", "a100")
    until("the condition has the reason", lambda: _OVER in _read_condition(dev, site, "one-more"), _WITHIN)
    assert "allocated 40Gi gpu-memory, charged to others 120Gi, hard 120Gi" in _read_condition(dev, site, "one-more")
    assert count_devices(site.cluster, dev.namespace) == 2


def test_kubectl_shows_that_the_least_of_a_claim_has_no_room(site: Site, dev: Tenant) -> None:
    two = claim("two", _request_devices("h100", 2))
    never = "of the published devices, cap models of this namespace has hard"
    until("the gate has seen the slice", lambda: "TG211" in _read_warnings(dev, two), _WITHIN)
    shown = _read_warnings(dev, two)
    assert f'Warning: ResourceClaim "two": this claim gets at least 2 h100 {never} 1: with these devices' in shown
    assert f"this claim gets at least 160Gi gpu-memory {never} 120Gi: with these devices its pod can never run" in shown
    one, small = claim("one", _request_devices("h100")), claim("small", _request_devices("a100"))
    assert _read_warnings(dev, one) == ""
    _request(dev, site, "first", "h100")
    until("the first pod is placed", lambda: _is_placed(dev, site, "first"), _WITHIN)
    until("the ledger counts the device", lambda: "TG212" in _read_warnings(dev, one), _WITHIN)
    assert "at least 1 h100" in _read_warnings(dev, one)
    assert _read_warnings(dev, small) == ""
    made = claim_template("large", _request_devices("h100"))
    assert dev.create(made).is_done
    pod = claiming_pod(site.image, "claiming", resourceClaimTemplateName="large")
    until(
        "a pod is warned too", lambda: "the claims of this pod get at least 1 h100" in _read_warnings(dev, pod), _WITHIN
    )
    assert dev.create(one).is_done


def _run(site: Site, gate: GateProcess, dev: Tenant, *options: str) -> CompletedProcess[str]:
    """Run `tallygate usage` for the tenant's namespace."""
    return run_tallygate(site.cluster, "usage", "--policies", str(gate.policies), "-n", dev.namespace, *options)


def _show(result: CompletedProcess[str]) -> tuple[int, str, str]:
    """Return the exit code and what is printed, without the time of a count: the leader may count meanwhile."""
    return result.returncode, re.sub(r"\d{4}-\d\d-\d\dT[\d:]{8}Z", "TIME", result.stdout), result.stderr


def _list_used(result: CompletedProcess[str]) -> dict[str, int]:
    """Return the used amounts by name, empty while one is reserved."""
    assert result.returncode == 0, result.stderr
    lines = json.loads(result.stdout)["items"]
    return {} if any(each["reserved"] for each in lines) else {each["resource"]: each["used"] for each in lines}


@pytest.fixture
def two_devices(site: Site, model_gate: GateProcess, dev: Tenant) -> Tenant:
    """Return a tenant that has a device of each model, which the ledger counts."""
    for name, model in (("large", "h100"), ("small", "a100")):
        _request(dev, site, name, model)
        until(f"{name} is placed", partial(_is_placed, dev, site, name), _WITHIN)
    live = ("-o", "json", "--kubeconfig", str(site.cluster.kubeconfig))
    until("both are counted", lambda: _list_used(_run(site, model_gate, dev, *live)) == _BOTH, _WITHIN)
    return dev


def test_verify_recounts_devices_by_slices_and_finds_a_wrong_ledger(
    site: Site, model_gate: GateProcess, two_devices: Tenant
) -> None:
    live = ("--verify", "-o", "json", "--kubeconfig", str(site.cluster.kubeconfig))
    verified = _run(site, model_gate, two_devices, *live)
    assert (verified.returncode, verified.stderr) == (0, "1 ledger compared with the pods: no drift\n")
    with model_gate.freeze():  # it would put the ledger right
        path = _find_ledger(site, two_devices)
        api(site.cluster.kubeconfig).patch(path, {"status": {"used": {"h100": "3"}}})
        found = _run(site, model_gate, two_devices, *live)
    assert found.returncode == 1, found.stdout + found.stderr
    (drift,) = json.loads(found.stdout)["items"]
    assert (drift["resource"], drift["ledger"], drift["pods"]) == ("h100", 3, 1)


def _find_ledger(site: Site, dev: Tenant) -> str:
    """Return the path of the ledger of the tenant's namespace."""
    ledgers = api(site.cluster.kubeconfig).items("/apis/tallygate.dev/v1alpha1/capledgers")
    (found,) = [each for each in ledgers if each["spec"].get("namespace") == dev.namespace]
    return f"{get_ledgers_path(found['metadata']['namespace'])}/{found['metadata']['name']}"


def test_a_snapshot_with_slices_gives_the_usage_of_the_cluster(
    site: Site, model_gate: GateProcess, two_devices: Tenant, tmp_path: Path
) -> None:
    kubeconfig, now = ("--kubeconfig", str(site.cluster.kubeconfig)), tmp_path / "now.json"
    taken = run_tallygate(site.cluster, "snapshot", *kubeconfig, str(now))
    assert (taken.returncode, taken.stderr) == (0, "")
    for more in ((), ("--explain", "models"), ("--verify",)):
        stored = _run(site, model_gate, two_devices, *more, "--snapshot", str(now))
        live = _run(site, model_gate, two_devices, *more, *kubeconfig)
        assert _show(stored) == _show(live)
    content = json.loads(now.read_bytes())
    content["items"] = [each for each in content["items"] if each["kind"] != "CapLedger"]
    now.write_text(json.dumps(content))
    assert _list_used(_run(site, model_gate, two_devices, "-o", "json", "--snapshot", str(now))) == _BOTH


def test_devices_that_are_not_published_any_more_are_named_and_keep_what_they_count(
    site: Site, model_gate: GateProcess, two_devices: Tenant
) -> None:
    ours, resource_slice = api(site.cluster.kubeconfig), _slice(site.node)
    slices, kubeconfig = ours.collection(resource_slice, ""), ("--kubeconfig", str(site.cluster.kubeconfig))
    ours.delete(f"{slices}/{resource_slice['metadata']['name']}")
    try:
        path = _find_ledger(site, two_devices)
        until("the ledger keeps them", lambda: len(ours.get(path)["status"].get("unpublished") or ()) == 2, _WITHIN)
        verified = _run(site, model_gate, two_devices, "--verify", *kubeconfig)
        assert verified.returncode == 0, verified.stdout
        assert f"no ResourceSlice publishes devices that claims have, {_DRIVER}/models-" in verified.stderr
        assert "they count what they counted when they were published" in verified.stderr
        assert _list_used(_run(site, model_gate, two_devices, "-o", "json", *kubeconfig)) == _BOTH
    finally:
        ours.create(slices, resource_slice)
