"""`tallygate predict` and `headroom` beside the real scheduler: why a pod waits, and that the suggestions work.

The output is the same for the cluster, a snapshot, kubectl's list, and the pod's own manifest.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from e2e.api import Object, api
from e2e.claims import DRIVER, GPUS, claim, claiming_pod, exactly, list_allocated, publish_devices
from e2e.command_output import run_tallygate
from e2e.pods import DONGLE, pod
from e2e.ports import Cluster, Site
from e2e.predicted_devices import DEVICES, find_prediction_differences
from e2e.suite_node import restore_node
from e2e.waiting import until

_WITHIN = 240.0  # seconds, for the scheduler
_DONGLES = 4  # of the site's node
_MODELLED_MINORS = ("36", "37")
_LISTED = "nodes,pods,namespaces,pvc,pv,sc,priorityclasses,pdb"

Result = subprocess.CompletedProcess[str]
Run = Callable[..., Result]


@pytest.fixture
def tallygate(site: Site) -> Run:
    """Return a function that runs tallygate with these arguments and this stdin."""

    def run(*arguments: str, stdin: str = "") -> Result:
        return run_tallygate(site.cluster, *arguments, stdin=stdin)

    return run


@pytest.fixture
def live(site: Site) -> tuple[str, str]:
    """Return the options that name the cluster."""
    return "--kubeconfig", str(site.cluster.kubeconfig)


@pytest.fixture
def waiting(site: Site, namespace: str) -> str:
    """Return a namespace in which one pod has three of the node's four dongles, and another waits for two."""
    restore_node(site, namespace)
    _create(site, namespace, "first", "3")
    until("it has a node", lambda: bool(_pod(site.cluster, namespace, "first")["spec"].get("nodeName")), _WITHIN)
    _create(site, namespace, "waits", "2")
    until("the scheduler has tried the other", lambda: bool(_message(site.cluster, namespace, "waits")), _WITHIN)
    return namespace


def _create(site: Site, namespace: str, name: str, dongles: str) -> None:
    api(site.cluster.kubeconfig).create(_pods(namespace), _new(site, name, dongles))


def _new(site: Site, name: str, dongles: str) -> Object:
    made = pod(site, name, dongles)
    del made["spec"]["schedulerName"]  # the default scheduler is to have it
    return made


def _pod(cluster: Cluster, namespace: str, name: str) -> Object:
    return api(cluster.kubeconfig).get(f"{_pods(namespace)}/{name}")


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def _message(cluster: Cluster, namespace: str, name: str) -> str:
    """Return the scheduler's message about a pod that it could not place."""
    conditions = _pod(cluster, namespace, name)["status"].get("conditions", ())
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


def _prediction(result: Result) -> Object:
    (found,) = json.loads(result.stdout)["items"]
    return dict(found)


def test_a_pod_that_waits_is_explained_in_the_schedulers_own_words(
    site: Site, tallygate: Run, live: tuple[str, str], waiting: str
) -> None:
    asked = ("predict", "pod/waits", "--namespace", waiting, *live)
    result = tallygate(*asked, "-o", "json")
    assert result.returncode == 1, result.stderr
    found = _prediction(result)
    assert found["verdict"] == "not now"
    assert found["message"] == _message(site.cluster, waiting, "waits")
    (near,) = (each for each in found["closestNodes"] if each["node"] == site.node)
    (short,) = near["shortfalls"]
    assert {key: short[key] for key in ("resource", "requests", "allocatable", "used", "free", "short")} == {
        "resource": DONGLE,
        "requests": 2,
        "allocatable": 4,
        "used": 3,
        "free": 1,
        "short": 1,
    }
    assert [(each["namespace"], each["name"]) for each in near["consumers"]] == [(waiting, "first")]
    table = tallygate(*asked).stdout
    assert f"would help: evict these from {site.node}: {waiting}/first" in table
    assert f"would help: 1 more {DONGLE} on the node (then: {site.node})" in table


@pytest.fixture
def release_note(site: Site) -> str:
    """Return the line on stderr about a release of Kubernetes that is not modelled; empty for one that is."""
    server = api(site.cluster.kubeconfig).get("/version")
    if server["minor"] in _MODELLED_MINORS:
        return ""
    return (
        f"tallygate: the cluster runs Kubernetes {server['gitVersion']}, and the rules of kube-scheduler 1.36 apply "
        "here: verdicts and messages of that version may differ\n"
    )


def test_a_snapshot_and_kubectl_say_the_same(  # noqa: PLR0913, PLR0917  fixtures
    site: Site, tallygate: Run, live: tuple[str, str], waiting: str, release_note: str, tmp_path: Path
) -> None:
    """Compare scores and reasons, node by node, and those of the pod's own manifest.

    kubectl's list has no version of the cluster, so that the rules of the newest release apply to it.
    """
    ours, kubectls, asked = tmp_path / "ours.json", tmp_path / "kubectl.json", ("--namespace", waiting, "-o", "json")
    taken = tallygate("snapshot", str(ours), *live)
    assert (taken.returncode, taken.stderr) == (0, "")
    listed = site.cluster.kubectl("get", _LISTED, "--all-namespaces", "-o", "json")
    assert listed.returncode == 0, listed.stderr
    kubectls.write_text(listed.stdout)
    result = [
        tallygate("predict", "pod/waits", *asked, *source)
        for source in (live, ("--snapshot", str(ours)), ("--snapshot", str(kubectls)))
    ]
    manifest = site.cluster.kubectl("get", "pod", "waits", f"--namespace={waiting}", "-o", "yaml").stdout
    result.append(tallygate("predict", "-f", "-", *asked, *live, stdin=manifest))
    assert [each.stderr for each in result] == [release_note, release_note, "", release_note]
    assert len({_drop_release(each.stdout) for each in result}) == 1
    assert '"NodeResourcesFit"' in result[0].stdout


def _drop_release(printed: str) -> str:
    """Return a prediction without the release, and without the words that only one release has in its messages."""
    prediction = json.loads(printed)
    for each in prediction["items"]:
        del each["scheduler"]
    return json.dumps(prediction).replace("no new claims to deallocate, ", "")


def test_what_would_help_does(
    site: Site, tallygate: Run, live: tuple[str, str], waiting: str, release_note: str
) -> None:
    """Add a node, hypothetically; delete the consumer, in fact."""
    asked = ("predict", "pod/waits", "--namespace", waiting, *live)
    added = tallygate(*asked, "--add", f"1 x {{cpu: 1, {DONGLE}: 2}}")
    assert (added.returncode, added.stdout) == (
        0,
        f"Pod {waiting}/waits: fits now: on added-1-1; 1 feasible node\n",
    )
    api(site.cluster.kubeconfig).delete(f"{_pods(waiting)}/first", gracePeriodSeconds="0")
    until("it has a node", lambda: bool(_pod(site.cluster, waiting, "waits")["spec"].get("nodeName")), _WITHIN)
    there = tallygate(*asked)
    already = f"tallygate: pod/waits: it is on node {site.node} already\n"
    assert (there.returncode, there.stderr) == (2, release_note + already)


def test_as_many_more_are_placed_as_there_was_room_for(
    site: Site, tallygate: Run, live: tuple[str, str], namespace: str
) -> None:
    restore_node(site, namespace)
    _create(site, namespace, "first", "1")
    until("it has a node", lambda: bool(_pod(site.cluster, namespace, "first")["spec"].get("nodeName")), _WITHIN)
    written = json.dumps(_new(site, "more", "1"))

    result = tallygate("headroom", "-f", "-", "--namespace", namespace, "-o", "json", *live, stdin=written)
    (answer,) = json.loads(result.stdout)["items"]
    assert answer["copies"] == _DONGLES - 1
    for number in range(_DONGLES):
        _create(site, namespace, f"more-{number}", "1")

    def ends() -> list[bool]:
        pods = [_pod(site.cluster, namespace, f"more-{number}") for number in range(_DONGLES)]
        return [bool(each["spec"].get("nodeName")) for each in pods]

    until("three are placed", lambda: sum(ends()) == answer["copies"], _WITHIN)
    (left,) = (number for number, placed in enumerate(ends()) if not placed)
    until("the fourth was tried", lambda: bool(_message(site.cluster, namespace, f"more-{left}")), _WITHIN)
    assert _message(site.cluster, namespace, f"more-{left}").startswith(answer["message"])


def test_a_daemon_sets_pod_is_explained_in_the_schedulers_own_words(
    site: Site, tallygate: Run, live: tuple[str, str], waiting: str
) -> None:
    """Predict the pod that its controller makes for the node with the least free."""
    template = _new(site, "daemon", "2")
    del template["apiVersion"], template["kind"]
    template["metadata"] = {"labels": {"app": "daemon"}}
    template["spec"]["nodeSelector"] = {"kubernetes.io/hostname": site.node}
    written = json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "daemon"},
            "spec": {"selector": {"matchLabels": {"app": "daemon"}}, "template": template},
        }
    )
    found = _prediction(tallygate("predict", "-f", "-", "--namespace", waiting, "-o", "json", *live, stdin=written))
    assert (found["verdict"], found["copies"], found["placed"]) == ("not now", 1, 0)
    ours = api(site.cluster.kubeconfig)
    ours.create(f"/apis/apps/v1/namespaces/{waiting}/daemonsets", json.loads(written))

    def message() -> str:
        names = [each["metadata"]["name"] for each in ours.items(_pods(waiting), labelSelector="app=daemon")]
        return _message(site.cluster, waiting, names[0]) if names else ""

    until("the scheduler has tried its pod", lambda: bool(message()), _WITHIN)
    assert message() == found["message"]


@pytest.fixture
def three_devices(site: Site, namespace: str) -> Iterator[str]:
    """Yield a namespace with claims for two, two and four devices of a node that has three.

    Without pods of other cases, which would leave the node between two predictions that are compared.
    """
    restore_node(site, namespace)
    ours, claims = api(site.cluster.kubeconfig), f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    with publish_devices(site.cluster, site.node, 3):
        for name, count in _CLAIMS.items():
            ours.create(claims, claim(name, exactly(count)))
        yield namespace
        for name in _CLAIMS:
            ours.delete(f"{_pods(namespace)}/{name}", gracePeriodSeconds="0")
        # One that was allocated for a pod that is deleted just then keeps its devices for as long as it exists.
        ours.delete(claims)
        until("no claim is left", lambda: not ours.items(claims), _WITHIN)


_CLAIMS = {"first": 2, "second": 2, "many": 4}


def test_pods_with_claims_end_as_was_predicted_before(
    site: Site, tallygate: Run, live: tuple[str, str], three_devices: str, tmp_path: Path
) -> None:
    """Predict each pod from its manifest, then create it; a snapshot has the same prediction."""
    ours, verdicts = api(site.cluster.kubeconfig), {}
    for name, count in _CLAIMS.items():
        written = claiming_pod(site.image, name, resourceClaimName=name)
        asked = ("predict", "-f", "-", "--namespace", three_devices, "-o", "json")
        found = _prediction(tallygate(*asked, *live, stdin=json.dumps(written)))
        snapshot = str(tmp_path / f"{name}.json")
        assert tallygate("snapshot", snapshot, *live).returncode == 0
        stored = tallygate(*asked, "--snapshot", snapshot, stdin=json.dumps(written))
        assert _prediction(stored) == found
        verdicts[name] = found["verdict"]
        ours.create(_pods(three_devices), written)
        if found["verdict"] == "fits now":
            until("it has a node", partial(_has_node, site.cluster, three_devices, name), _WITHIN)
            assert list_allocated(site.cluster, three_devices, name) == [
                (each["request"], each["pool"], each["device"]) for each in found["devices"]
            ]
        else:
            until("it was tried", partial(_was_tried, site.cluster, three_devices, name), _WITHIN)
            assert _message(site.cluster, three_devices, name) == found["message"]
            (near,) = found["closestNodes"]
            assert [(each["requests"], each["missing"]) for each in near["deviceShortfalls"]] == [(count, count - 1)]
            (pool,) = near["deviceShortfalls"][0]["pools"]
            first = {"claim": f"{three_devices}/first", "pods": [f"{three_devices}/first"], "devices": 2}
            assert (pool["devices"], pool["free"], pool["allocated"]) == (3, 1, [first])
    assert verdicts == {"first": "fits now", "second": "not now", "many": "never on these nodes"}


def test_each_pod_gets_the_devices_that_were_predicted_before_it_was_created(site: Site, namespace: str) -> None:
    """Publish devices without a driver: kube-scheduler allocates them, and a kubelet would start no container."""
    with publish_devices(site.cluster, site.node, DEVICES):
        try:
            assert list(find_prediction_differences(site, namespace, DRIVER, GPUS, _is_on_node)) == []
        finally:
            api(site.cluster.kubeconfig).delete(_pods(namespace), gracePeriodSeconds="0")


def _is_on_node(pod: Object) -> bool:
    return "nodeName" in pod["spec"]


def _has_node(cluster: Cluster, namespace: str, name: str) -> bool:
    return bool(_pod(cluster, namespace, name)["spec"].get("nodeName"))


def _was_tried(cluster: Cluster, namespace: str, name: str) -> bool:
    return bool(_message(cluster, namespace, name))
