"""Caps by what is allocated: devices of two models, counted by an attribute, and the sum of their memory.

Devices come from a slice, and the real scheduler allocates them. A rejected allocation leaves its pod Pending.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.api import Object, api
from e2e.claims import GROUP, ROOT, claim, claim_template, claiming_pod, count_devices
from e2e.extra_gates import run_ledger_gate
from e2e.gates.process import GateProcess
from e2e.namespaces import new_namespace
from e2e.ports import Site
from e2e.tenant import Tenant, tenant
from e2e.waiting import until

_WITHIN = 120.0  # seconds
_DRIVER = "models.tallygate.example"
_CLASS = "tallygate-models"
_MODELS = {"h-0": ("h100", "80Gi"), "h-1": ("h100", "80Gi"), "a-0": ("a100", "40Gi"), "a-1": ("a100", "40Gi")}
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
