"""Attempts of a tenant who has `edit` in his namespace and nothing else, and what prevents them.

docs/operate/security.md describes each case. Where the answer is not the gate's, the case shows whose it is.
"""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from e2e.api import MERGE, STRATEGIC, api
from e2e.evasion_pods import BARE, EVASIONS, asking, asking_all, container_of, deployment_of, merge
from e2e.extra_gates import run_ledger_gate
from e2e.gates.process import GateProcess
from e2e.load import CLIENTS
from e2e.namespaces import label, new_namespace
from e2e.pods import DONGLE, Pod, list_stored, pod, submit
from e2e.ports import Cluster, Site
from e2e.tenant import Tenant, tenant
from e2e.waiting import until

_WITHIN = 120.0  # seconds
_FULL = "cap dongles of this namespace exceeded"
_BY_NAME = "kubernetes.io/metadata.name"
_COG, _GEAR, _WIDGET = "example.com/cog", "example.com/gear", "example.com/widget"
_POLICIES = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: dongles}
spec:
  namespaces: {selector: {matchLabels: {dongles: few}}}
  hard: {example.com/dongle: 2, requests.cpu: 1}
  exceed: {groups: [break-glass]}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: widgets-by-label}
spec:
  namespaces: {selector: {matchLabels: {dongles: few}}}
  pods: {objectSelector: {matchLabels: {tier: gpu}}}
  hard: {example.com/widget: 1}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gears-by-node}
spec:
  namespaces: {selector: {matchLabels: {dongles: few}}}
  pods: {nodeSelector: {gears: oiled}}
  hard: {example.com/gear: 1}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: one-cog}
spec:
  resources: [example.com/cog]
  match: {exempt: {groups: [break-glass], serviceAccounts: ["*/trusted"]}}
  checks: {perContainer: {max: 1}}
"""


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """Create the namespace of the gate's ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module")
def ledger_gate(site: Site, own: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate that watches the cluster with its ledgers there, as in production but for the in-flight bound."""
    folder = tmp_path_factory.mktemp("evasion") / "gate"
    with run_ledger_gate(site, folder, {"evasion.yaml": _POLICIES}, own) as gate:
        yield gate


@pytest.fixture
def dev(site: Site, ledger_gate: GateProcess, tmp_path: Path) -> Iterator[Tenant]:
    """Yield a tenant whose namespace may use two dongles, and uses none."""
    assert ledger_gate.runs
    with tenant(site.cluster, tmp_path, dongles="few") as made:
        _until_accepted(site, made, "opens", "0")
        made.api.delete(f"{made.pods}/opens")
        yield made


@pytest.fixture(scope="module")
def full(site: Site, ledger_gate: GateProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """Yield a tenant whose namespace uses the two dongles that it may."""
    assert ledger_gate.runs
    with tenant(site.cluster, tmp_path_factory.mktemp("full"), dongles="few") as made:
        _until_accepted(site, made, "first", "1")
        cpu = {"spec": {"containers": [container_of("main", **asking_all({DONGLE: "1", "cpu": "500m"}))]}}
        assert made.create(merge(pod(site, "second"), cpu)).is_done
        yield made


def _until_accepted(site: Site, tenant: Tenant, name: str, dongles: str) -> None:
    """Wait until a pod is created: a ledger that is new to its gate is active within moments."""
    until(f"{name} is accepted", lambda: tenant.create(pod(site, name, dongles)).is_done, _WITHIN)


@pytest.mark.parametrize("what", EVASIONS)
def test_a_pod_over_a_full_cap_is_rejected_though_it(what: str, site: Site, full: Tenant) -> None:
    refused = full.create(merge(pod(site, "third"), EVASIONS[what]))
    assert _FULL in refused.rejection
    assert list_stored(site, full.namespace) == {"first", "second"}


def test_server_side_apply_by_another_manager_creates_nothing_more(site: Site, full: Tenant) -> None:
    arguments = ("apply", "--server-side", "--field-manager=mine", "--filename=-")
    assert _FULL in full.kubectl(*arguments, stdin=json.dumps(pod(site, "third"))).stderr


_NAMES = {
    "a letter of another alphabet": ("example.com/d\u043engle", "is not a name for a resource"),
    "a letter without width": ("example.com/don\u200bgle", "is not a name for a resource"),
    "a name on the pod as a whole": ("", "cannot be set for a pod as a whole"),
}


@pytest.mark.parametrize("what", _NAMES)
def test_a_name_that_only_looks_like_the_counted_one_is_rejected(what: str, site: Site, full: Tenant) -> None:
    name, sentence = _NAMES[what]
    spec: dict[str, Any] = (
        {"containers": [container_of("main", **asking(name))]} if name else {"containers": BARE, **asking(DONGLE)}
    )
    assert sentence in full.create(merge(pod(site, "third"), {"spec": spec})).rejection


def test_a_name_in_capitals_is_another_resource_which_no_node_has(site: Site, full: Tenant) -> None:
    """Show that it is not counted, since it is not the dongle; and it never runs, as the warning says."""
    spec = {"containers": [container_of("main", **asking("example.com/Dongle"))]}
    (warning,) = full.create(merge(pod(site, "capital"), {"spec": spec}), dry=True).warnings
    assert "no node advertises example.com/Dongle: did you mean example.com/dongle?" in warning


_FORBIDDEN: dict[str, tuple[str, ...]] = {
    "a pod's status": ("patch", "pod", "first", "--subresource=status", '--patch={"status":{"phase":"Succeeded"}}'),
    "his namespace's labels": ("label", "namespace", "NAMESPACE", "dongles-"),
    "his ledger": ("delete", "capledgers.tallygate.dev", "--all", "--namespace=OWN"),
    "the gate's leases": ("delete", "leases", "--all", "--namespace=OWN"),
    "the registration": ("delete", "validatingwebhookconfiguration", "tallygate"),
    "his own rights": ("create", "rolebinding", "more", "--clusterrole=admin", "--serviceaccount=NAMESPACE:tenant"),
    "who he is, by a group": ("get", "pods", "--as=me", "--as-group=break-glass"),
    "who he is, by another's ServiceAccount": ("get", "pods", "--as=system:serviceaccount:kube-system:default"),
}


@pytest.mark.parametrize("what", _FORBIDDEN)
def test_rbac_forbids_a_tenant_to_change(what: str, full: Tenant, own: str) -> None:
    arguments = [each.replace("NAMESPACE", full.namespace).replace("OWN", own) for each in _FORBIDDEN[what]]
    done = full.kubectl(*arguments)
    assert done.returncode
    assert re.search(r"\(Forbidden\)|is forbidden", done.stderr)


def test_no_tenant_may_bind_resize_or_debug_a_pod_without_a_further_role(full: Tenant) -> None:
    for verb, part in (("create", "binding"), ("patch", "resize"), ("patch", "ephemeralcontainers")):
        done = full.kubectl("auth", "can-i", verb, "pods", f"--subresource={part}")
        assert done.stdout.strip() == "no"


def test_the_rights_to_resize_and_debug_evade_no_cap(site: Site, full: Tenant) -> None:
    """Act as the administrator. A resize is charged; a debugging container may request nothing at all."""
    admin = api(site.cluster.kubeconfig)
    larger = {"spec": {"containers": [{"name": "main", **asking("cpu", "2")}]}}
    resized = admin.ask("PATCH", f"{full.pods}/second/resize", larger, kind=STRATEGIC)
    assert "cap dongles of this namespace exceeded" in resized.rejection
    debugger = {"spec": {"ephemeralContainers": [container_of("d", **asking(DONGLE))]}}
    debugged = admin.ask("PATCH", f"{full.pods}/first/ephemeralcontainers", debugger, kind=STRATEGIC)
    assert "resources" in debugged.rejection


def test_no_user_can_change_the_label_by_which_the_registration_excludes_namespaces(site: Site, full: Tenant) -> None:
    """Show that the API server writes it from the name (kubernetes/pkg/registry/core/namespace, v1.36)."""
    admin, namespace, name = api(site.cluster.kubeconfig), f"/api/v1/namespaces/{full.namespace}", _BY_NAME
    assert admin.ask("PATCH", namespace, {"metadata": {"labels": {name: "kube-system"}}}, kind=MERGE).is_done
    assert admin.get(namespace)["metadata"]["labels"][name] == full.namespace


def test_pods_of_a_namespace_that_leaves_its_cap_and_returns_are_counted(site: Site, dev: Tenant) -> None:
    """Act as a user who may edit namespaces: pods of the meantime are counted, and nothing more is accepted."""
    label(site.cluster, dev.namespace, {"dongles": None})
    names = (f"free-{each}" for each in count())

    def is_without_cap() -> bool:
        dev.create(pod(site, next(names)))
        return len(list_stored(site, dev.namespace)) > 2

    until("the cap applies no more", is_without_cap, _WITHIN)
    label(site.cluster, dev.namespace, {"dongles": "few"})
    until("they are counted", lambda: "cap dongles" in dev.create(pod(site, "more")).rejection, _WITHIN)


def test_a_deleted_pod_with_a_finalizer_is_still_counted(site: Site, dev: Tenant) -> None:
    stuck = merge(pod(site, "stuck", "2"), {"metadata": {"finalizers": ["example.com/stays"]}})
    assert dev.create(stuck).is_done
    dev.api.delete(f"{dev.pods}/stuck")
    try:
        assert _FULL in dev.create(pod(site, "next")).rejection
    finally:
        dev.api.patch(f"{dev.pods}/stuck", {"metadata": {"finalizers": None}})
    _until_accepted(site, dev, "next", "1")


def test_an_eviction_frees_no_more_than_the_deleted_pod_used(site: Site, dev: Tenant) -> None:
    assert dev.create(pod(site, "whole", "2")).is_done
    evicted = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "whole"}}
    dev.api.create(f"{dev.pods}/whole/eviction", evicted)
    until("its room is back", lambda: dev.create(pod(site, "next", "2")).is_done, _WITHIN)
    assert _FULL in dev.create(pod(site, "over")).rejection


def test_pods_of_replicas_added_by_the_scale_subresource_are_rejected(site: Site, dev: Tenant) -> None:
    deployment = deployment_of(site, container_of("main", **asking(DONGLE)), replicas=1)
    assert dev.create(deployment).is_done
    web = dev.api.collection(deployment, dev.namespace) + "/web"
    dev.api.patch(f"{web}/scale", {"spec": {"replicas": 50}})

    def failure() -> str:
        conditions = dev.api.get(web).get("status", {}).get("conditions", ())
        return "".join(each["message"] for each in conditions if each["type"] == "ReplicaFailure")

    until("its controller was refused", lambda: _FULL in failure(), _WITHIN)
    assert len(list_stored(site, dev.namespace)) == 2


def test_an_updated_template_must_keep_the_rules(site: Site, dev: Tenant) -> None:
    kept = deployment_of(site, container_of("main", **asking(_COG)))
    assert dev.create(kept).is_done
    broken = deployment_of(site, container_of("main", **asking(_COG, "2")))
    arguments = ("apply", "--server-side", "--force-conflicts", "--filename=-")
    assert "rule one-cog" in dev.kubectl(*arguments, stdin=json.dumps(broken)).stderr


def test_a_pod_that_gets_the_label_of_a_cap_is_charged_then(site: Site, dev: Tenant) -> None:
    """Show that a cap by the pods' own labels counts what it sees: that is no wall (docs/operate/security.md)."""
    labelled = {
        "metadata": {"labels": {"tier": "gpu"}},
        "spec": {"containers": [container_of("main", **asking(_WIDGET))]},
    }
    plain = {"spec": labelled["spec"]}
    _until_accepted(site, dev, "opens-it", "0")
    until("the cap is active", lambda: dev.create(merge(pod(site, "in"), labelled)).is_done, _WITHIN)
    assert "cap widgets-by-label" in dev.create(merge(pod(site, "second"), labelled)).rejection
    assert dev.create(merge(pod(site, "outside"), plain)).is_done
    labelling = {"metadata": {"labels": {"tier": "gpu"}}}
    assert "cap widgets-by-label" in dev.api.ask("PATCH", f"{dev.pods}/outside", labelling, kind=MERGE).rejection


def test_a_cap_by_node_selector_does_not_count_pods_with_a_node_affinity(site: Site, dev: Tenant) -> None:
    """Show the same: a node affinity is equivalent to the scheduler. Cap the resource, not the way to the node."""
    asks = {"spec": {"containers": [container_of("main", **asking(_GEAR))]}}
    selecting = merge(asks, {"spec": {"nodeSelector": {"gears": "oiled"}}})
    term = {"matchExpressions": [{"key": "gears", "operator": "In", "values": ["oiled"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    until("the cap is active", lambda: dev.create(merge(pod(site, "in"), selecting)).is_done, _WITHIN)
    assert "cap gears-by-node" in dev.create(merge(pod(site, "second"), selecting)).rejection
    unseen = merge(asks, {"spec": {"affinity": {"nodeAffinity": required}}})
    assert dev.create(merge(pod(site, "unseen"), unseen)).is_done


def test_a_gated_pod_that_gets_a_node_selector_of_a_cap_is_charged_then(site: Site, dev: Tenant) -> None:
    """Give a node selector to a gated pod, which may get one (kubernetes.io, "Pod Scheduling Readiness")."""
    asks = {"spec": {"containers": [container_of("main", **asking(_GEAR))]}}
    selecting = merge(asks, {"spec": {"nodeSelector": {"gears": "oiled"}}})
    waiting = merge(asks, {"spec": {"schedulingGates": [{"name": "example.com/wait"}]}})
    until("the cap is active", lambda: dev.create(merge(pod(site, "in"), selecting)).is_done, _WITHIN)
    assert dev.create(merge(pod(site, "waiting"), waiting)).is_done
    led = {"spec": {"nodeSelector": {"gears": "oiled"}}}
    assert "cap gears-by-node" in dev.api.ask("PATCH", f"{dev.pods}/waiting", led, kind=STRATEGIC).rejection


_UNASKED = {
    "a privileged container": {"containers": [container_of("main", securityContext={"privileged": True})]},
    "a path of the node": {"containers": BARE, "volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}]},
}


@pytest.mark.parametrize("what", _UNASKED)
def test_devices_used_without_a_request_are_for_pod_security_to_reject(what: str, site: Site, dev: Tenant) -> None:
    """Show that the gate counts requests. A user who may run such pods needs no request."""
    taking = {**pod(site, "taking"), "spec": _UNASKED[what]}
    assert dev.create(taking, dry=True).is_done
    label(site.cluster, dev.namespace, {"pod-security.kubernetes.io/enforce": "baseline"})
    refused = 'violates PodSecurity "baseline'  # once the API server's own watch has reported the label
    until("such pods are refused", lambda: refused in dev.create(taking, dry=True).rejection, _WITHIN)


def test_a_tenant_with_edit_can_impersonate_any_service_account_of_his_namespace(site: Site, dev: Tenant) -> None:
    """Show that an exemption for one of those is one for him (`impersonate` in the ClusterRole edit, v1.36)."""
    two = merge(pod(site, "two"), {"spec": {"containers": [container_of("main", **asking(_COG, "2"))]}})
    assert "rule one-cog" in dev.create(two).rejection
    dev.api.create(f"/api/v1/namespaces/{dev.namespace}/serviceaccounts", {"metadata": {"name": "trusted"}})
    dev.bind("trusted")
    exempt = {"Impersonate-User": f"system:serviceaccount:{dev.namespace}:trusted"}
    until("the exempt may", lambda: dev.create(two, headers=exempt).is_done, _WITHIN)


def test_break_glass_needs_membership_in_a_group_that_the_cluster_controls(site: Site, full: Tenant) -> None:
    over = json.dumps(pod(site, "over"))
    asks = ("create", "--filename=-", "--dry-run=server", f"--namespace={full.namespace}")
    as_group = ("--as=a-user", "--as-group=break-glass", "--as-group=system:masters")
    assert site.cluster.kubectl(*asks, *as_group, stdin=over).returncode == 0
    done = full.kubectl("create", "--filename=-", "--validate=false", *as_group, stdin=over)
    assert "cannot impersonate" in done.stderr


def test_a_forged_review_reserves_for_a_moment_and_never_frees_anything(
    site: Site, dev: Tenant, ledger_gate: GateProcess
) -> None:
    """Send reviews to a gate that authenticates no callers. With a token or an authority it rejects them.

    That is shown in tests/server/test_serving.py, for both.
    """
    honest = pod(site, "honest", "2")

    def is_reserved() -> bool:
        """Return whether two forged reviews reserve both dongles; the first may have expired before the second."""
        uids = (f"u-forged-{uuid4()}" for _ in range(2))
        allowed = [_allows_forged_review(ledger_gate, dev.namespace, uid, "CREATE", ("", "1")) for uid in uids]
        return all(allowed) and "used 0, reserved 2, hard 2" in dev.create(honest, dry=True).rejection

    until("two forged reviews reserve", is_reserved, _WITHIN)
    _until_accepted(site, dev, "honest", "2")
    uid = dev.api.get(f"{dev.pods}/honest")["metadata"]["uid"]
    assert _allows_forged_review(ledger_gate, dev.namespace, uid, "UPDATE", ("2", "0"))
    assert _allows_forged_review(ledger_gate, dev.namespace, uid, "DELETE", ("2", ""))
    assert _FULL in dev.create(pod(site, "over")).rejection


def _allows_forged_review(
    gate: GateProcess, namespace: str, uid: str, operation: str, dongles: tuple[str, str]
) -> bool:
    """Return whether the gate allows a review by any client of its port: a pod with these requests before and after."""
    before, after = (
        {
            "metadata": {"name": "forged", "uid": uid},
            "spec": {"containers": [container_of("m", **asking(DONGLE, each))]},
        }
        for each in dongles
    )
    request = {
        "uid": "r-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": operation,
        "namespace": namespace,
        "object": after if dongles[1] else None,
        "oldObject": before if dongles[0] else None,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    # As a pod would: it knows no authority, and need not care.
    with httpx.Client(verify=False, trust_env=False) as client:  # noqa: S501
        answer = client.post(f"https://127.0.0.1:{gate.port}/v1/admit/validate", json=review)
    allowed: bool = answer.json()["response"]["allowed"]
    return allowed


def test_thousands_of_creates_against_a_full_cap_delay_no_other_tenant(
    site: Site, full: Tenant, dev: Tenant, ledger_gate: GateProcess
) -> None:
    """Create as fast as eight clients are answered: more than 10,000 a minute where the machine is not busy."""
    before = ledger_gate.metrics()
    with full.http(CLIENTS) as http, ThreadPoolExecutor(CLIENTS) as pool:
        hammering = [pool.submit(_refusals, http, pod(site, "third")) for _ in range(CLIENTS)]
        served = [submit(site, dev.namespace, f"mine-{each}", "0") for each in range(8)]
        statuses = [status for each in hammering for status in each.result()]
    assert [each.rejection for each in served if not each.is_done] == []
    assert statuses == [HTTPStatus.FORBIDDEN] * (CLIENTS * _REFUSALS)
    assert (
        _read_metric(ledger_gate.metrics(), "ledger_batch_size_sum") - _read_metric(before, "ledger_batch_size_sum")
        < 100
    )
    assert list_stored(site, full.namespace) == {"first", "second"}


_REFUSALS = 125  # of each client


def _refusals(http: httpx.Client, manifest: Pod) -> list[int]:
    return [http.post("/pods", json=manifest).status_code for _ in range(_REFUSALS)]


def _read_metric(metrics: str, name: str) -> float:
    """Return the value of a metric without labels."""
    found = re.search(rf"^tallygate_{name} (\S+)$", metrics, re.MULTILINE)
    assert found, f"{name} is missing"
    return float(found[1])
