"""Classes of devices that go and return, come later, or get another extended resource: the cap is never exceeded.

Two replicas of the gate share the ledgers. Devices come from slices, and the real scheduler allocates them.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.api import Object, api
from e2e.claims import (
    ROOT,
    claim,
    claiming_pod,
    count_devices,
    device_class,
    exactly,
    publish_devices,
    requesting_pod,
)
from e2e.extra_gates import require_gate_process, until_listed
from e2e.ledgers import define_ledgers, delete_ledgers
from e2e.namespaces import new_namespace
from e2e.pods import make_deployment
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Site
from e2e.registering import register, unregister
from e2e.stress.replicas import Replicas
from e2e.tenant import Tenant, tenant
from e2e.waiting import until

_WITHIN = 120.0  # seconds
_DEVICES = 64  # the cap alone decides: a pod for which devices are short while others are bound waits for five minutes
_GPU, _OTHER = "example.com/coming-gpu", "example.com/other-gpu"
_HARD = 4
_OVER = "cap gpus of this namespace exceeded"
_POLICIES = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: gpus}}
spec:
  namespaces: {{selector: {{matchLabels: {{gpus: four}}}}}}
  hard: {{{_GPU}: {_HARD}}}
"""
_MADE_BY_SCHEDULER = "resource.kubernetes.io/extended-resource-claim"
_CLASSES = f"{ROOT}/deviceclasses"


@pytest.fixture(scope="module")
def gates(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Run two gates with their ledgers in the cluster, on a node with more devices than its pods request."""
    require_gate_process(site)
    define_ledgers(site.cluster)
    with (
        new_namespace(site.cluster, "gate-") as own,
        publish_devices(site.cluster, site.node, _DEVICES),
        ExitStack() as ends,
    ):
        ends.callback(delete_ledgers, site.cluster, own)
        follows = ("--cluster=kubeconfig", f"--kubeconfig={site.cluster.kubeconfig}")
        arguments = (*follows, "--ledgers=kubernetes", f"--namespace={own}", "--in-flight-bound=2s")
        replicas = Replicas(tmp_path_factory.mktemp("classes"), 2, arguments)
        replicas.write_policies({**SHIPPED_FILES, "classes.yaml": _POLICIES})
        ends.callback(replicas.stop)
        replicas.start()
        for each in replicas.each:
            until_listed(each)
        ends.callback(unregister, site.cluster)
        register(site.cluster, replicas)
        yield replicas


@pytest.fixture
def dev(site: Site, gates: Replicas, tmp_path: Path) -> Iterator[Tenant]:
    """Yield a tenant whose namespace may use four devices, and uses none."""
    assert all(each.runs for each in gates.each)
    with tenant(site.cluster, tmp_path, gpus="four") as made:
        pod = requesting_pod(site.image, "opens", {_GPU: f"{_HARD}"})
        until("a pod is accepted", lambda: made.create(pod, dry=True).is_done, _WITHIN)
        yield made


@pytest.fixture
def class_name(site: Site, dev: Tenant) -> Iterator[str]:
    """Yield the name of a class that does not exist; it is deleted afterwards."""
    name = f"class-{dev.namespace}"
    yield name
    api(site.cluster.kubeconfig).ask("DELETE", f"{_CLASSES}/{name}")


def _measure_used(site: Site, dev: Tenant) -> int:
    """Return the devices of claims and the requests of pods, each device once."""
    admin = api(site.cluster.kubeconfig)
    claims = admin.items(f"{ROOT}/namespaces/{dev.namespace}/resourceclaims")
    of_pods = sum(
        int(container["resources"].get("requests", {}).get(_GPU, "0"))
        for pod in admin.items(dev.pods)
        for container in pod["spec"]["containers"]
    )
    return of_pods + sum(
        len(each.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()))
        for each in claims
        if _MADE_BY_SCHEDULER not in each["metadata"].get("annotations", {})
    )


def _create_class(site: Site, name: str, resource: str) -> None:
    api(site.cluster.kubeconfig).create(_CLASSES, device_class(name, resource))


def _until_passed(site: Site, dev: Tenant, seconds: float) -> None:
    """Wait for some seconds in which the cap is never exceeded."""
    end = time.monotonic() + seconds

    def has_ended() -> bool:
        assert _measure_used(site, dev) <= _HARD
        return time.monotonic() >= end

    until("the time has passed", has_ended, seconds + _WITHIN)


@pytest.mark.parametrize("seconds", [2.0, 20.0])
def test_a_class_that_goes_and_returns_frees_nothing(site: Site, dev: Tenant, class_name: str, seconds: float) -> None:
    _create_class(site, class_name, _GPU)
    until("a claim is decided", lambda: dev.create(claim("four", exactly(4, class_name))).is_done, _WITHIN)
    assert dev.create(claiming_pod(site.image, "user", resourceClaimName="four")).is_done
    until("it has its devices", lambda: count_devices(site.cluster, dev.namespace) == _HARD, _WITHIN)
    spec = requesting_pod(site.image, "", {_GPU: "1"})["spec"] | {"restartPolicy": "Always"}
    assert dev.create(make_deployment("waits", 4, spec, strategy={"type": "Recreate"})).is_done
    api(site.cluster.kubeconfig).delete(f"{_CLASSES}/{class_name}")
    with ThreadPoolExecutor() as pool:
        further = pool.submit(dev.create, claim("further", exactly(4, class_name)))
        by_class = {f"deviceclass.resource.kubernetes.io/{class_name}": "4"}
        of_class = pool.submit(dev.create, requesting_pod(site.image, "of-class", by_class))
        by_name = pool.submit(dev.create, requesting_pod(site.image, "by-name", {_GPU: "4"}))
        _until_passed(site, dev, seconds)
        _create_class(site, class_name, _GPU)
        answers = [each.result() for each in (further, of_class, by_name)]
    assert not any(each.is_done for each in answers)
    assert all("cap gpus" in each.rejection for each in answers)
    _until_passed(site, dev, 3.0)
    dev.api.delete(f"{dev.pods}/user", gracePeriodSeconds="0")
    dev.api.delete(f"{ROOT}/namespaces/{dev.namespace}/resourceclaims/four")
    until("the Deployment has room", lambda: _measure_used(site, dev) > 0, _WITHIN)
    _until_passed(site, dev, 1.0)


def test_a_class_that_comes_later_is_not_guessed(site: Site, dev: Tenant, class_name: str) -> None:
    refused = dev.create(claim("early", exactly(_HARD, class_name)))
    assert refused.status == 429
    assert f"DeviceClass {class_name} does not exist" in refused.body
    pod = requesting_pod(site.image, "early", {f"deviceclass.resource.kubernetes.io/{class_name}": "10"})
    assert dev.create(pod).status == 429
    assert dev.create(requesting_pod(site.image, "plain", {"cpu": "1m"})).is_done
    _create_class(site, class_name, _GPU)
    until("the claim has room", lambda: dev.create(claim("later", exactly(_HARD, class_name))).is_done, _WITHIN)
    assert _OVER in dev.create(requesting_pod(site.image, "third", {_GPU: "1"})).rejection
    assert _OVER in dev.create(pod).rejection


def _is_counted_by(site: Site, class_name: str) -> bool:
    """Return whether a ledger counts the devices of a class by its extended resource."""
    ledgers = api(site.cluster.kubeconfig).items("/apis/tallygate.dev/v1alpha1/capledgers")
    return any(_GPU in each.get("status", {}).get("deviceClasses", {}).get(class_name, ()) for each in ledgers)


def _describe_scheduling(site: Site, dev: Tenant, name: str) -> str:
    pod: Object = api(site.cluster.kubeconfig).get(f"{dev.pods}/{name}")
    return "\n".join(each.get("message", "") for each in pod.get("status", {}).get("conditions", ()))


def _count_devices_of_claim(site: Site, dev: Tenant, name: str) -> int:
    """Return the devices of one claim.

    The other pod may have devices by a claim that the scheduler makes: those that the pod counts anyway.
    """
    stored: Object = api(site.cluster.kubeconfig).get(f"{ROOT}/namespaces/{dev.namespace}/resourceclaims/{name}")
    return len(stored.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()))


def test_a_class_that_gets_the_resource_later_has_its_allocations_decided(
    site: Site, dev: Tenant, class_name: str
) -> None:
    _create_class(site, class_name, _OTHER)
    until("a claim is decided", lambda: dev.create(claim("four", exactly(_HARD, class_name))).is_done, _WITHIN)
    assert dev.create(requesting_pod(site.image, "fills", {_GPU: f"{_HARD}"})).is_done
    patch = {"spec": {"extendedResourceName": _GPU}}
    api(site.cluster.kubeconfig).patch(f"{_CLASSES}/{class_name}", patch)
    # a replica that has not seen the class counts by the mappings of the ledger: from here on every one decides
    until("the ledger counts by the class", lambda: _is_counted_by(site, class_name), _WITHIN)
    assert _OVER in dev.create(claim("n", exactly(1, class_name)), dry=True).rejection
    assert dev.create(claiming_pod(site.image, "user", resourceClaimName="four")).is_done

    def is_rejected() -> bool:
        assert _count_devices_of_claim(site, dev, "four") == 0
        return _OVER in _describe_scheduling(site, dev, "user")

    until("its condition has the reason", is_rejected, _WITHIN, lambda: _describe_scheduling(site, dev, "user"))
    assert _count_devices_of_claim(site, dev, "four") == 0
    assert _measure_used(site, dev) <= _HARD
    dev.api.delete(f"{dev.pods}/fills", gracePeriodSeconds="0")
    until("the claim has its devices", lambda: _count_devices_of_claim(site, dev, "four") == _HARD, _WITHIN)
    _until_passed(site, dev, 1.0)
