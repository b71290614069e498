"""`tallygate predict` and `headroom` against an API server: listed kinds, and missing permissions."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tallygate.cli.sources import snapshot_items
from tallygate.cluster.kinds import CREATOR_RESOURCES
from tests.cli.usage.clusters import GPU, Object, namespace, pod
from tests.cli.usage.test_usage_cluster import NO_LEDGERS, NODE, VERSION, page
from tests.cli.usage.test_usage_cluster import run as run_with_responses
from tests.state.kubernetes.scripted_api_server import Responder, respond_json

_RESOURCES = [codec.name for codec in (*snapshot_items.VOLUME_CODECS, *snapshot_items.SCHEDULING_CODECS)]
_CLAIMS = [codec.name for codec in snapshot_items.CLAIM_CODECS]
_CREATORS = [resource for _, resource, _ in CREATOR_RESOURCES]
_CLAIM: Object = {
    "metadata": {
        "name": "data",
        "namespace": "team-a",
        "uid": "claim",
        "resourceVersion": "4",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    },
    "spec": {"volumeName": "missing", "storageClassName": "fast"},
    "status": {"phase": "Bound"},
}
_GOLD: Object = {"metadata": {"name": "gold", "uid": "gold", "resourceVersion": "5"}, "value": 7}
_NODE: Object = NODE | {"status": {"allocatable": {GPU: "8", "pods": "110"}}}
_FORBIDDEN = respond_json(403, kind="Status", message="may not", code=403)


def _create_list_plays(**found: Responder) -> list[Responder]:
    """Return the responses to the other lists; the API server does not know unnamed ones."""
    return [found.get(name, NO_LEDGERS) for name in _RESOURCES]


def _create_plays(pods: Sequence[Object], **found: Responder) -> list[Responder]:
    return [VERSION, *_create_plays_after_version(pods, **found)]


def _create_plays_after_version(pods: Sequence[Object], **found: Responder) -> list[Responder]:
    """Return the responses to the lists, which end with claims for devices, their templates and slices."""
    claims = [found.get(name, NO_LEDGERS) for name in _CLAIMS]
    return [page([namespace("team-a")]), page([_NODE]), *_create_list_plays(**found), page(pods, revision=200), *claims]


def _create_snapshot_plays(pods: Sequence[Object], **found: Responder) -> list[Responder]:
    return [NO_LEDGERS, *_create_plays_after_version(pods, **found), *_create_creator_plays(**found)]


def _create_creator_plays(**found: Responder) -> list[Responder]:
    """Return the responses to the lists that tell which pods controllers could not create."""
    return [found.get(name, NO_LEDGERS) for name in _CREATORS]


def _create_pending_pod(**spec: object) -> Object:
    made = pod("waits", {GPU: "3"}, spec=spec, status={"phase": "Pending"})
    del made["spec"]["nodeName"]
    return made


_NO_GATE = [NO_LEDGERS] * 3
"""The responses for both webhook configurations of a gate and for its Deployment, where none is installed."""


def run(folder: Path, plays: Sequence[Responder], *arguments: str, stdin: str = "") -> tuple[Result, list[str]]:
    """Run a command against a server with these responses; leave out that a prediction looks for a gate first."""
    looked_up = [] if arguments[0] == "snapshot" else _NO_GATE
    result, paths = run_with_responses(folder, [*looked_up, *plays], *arguments, stdin=stdin)
    assert all("tallygate" in path for path in paths[: len(looked_up)])
    return result, paths[len(looked_up) :]


def _read_json(result: Result) -> Object:
    assert result.exit_code in (0, 1), result.output
    return dict(json.loads(result.stdout))


_ARGUMENTS = ("predict", "pod/waits", "--namespace", "team-a", "-o", "json")


def test_everything_is_listed_once_and_claims_after_the_pods(tmp_path: Path) -> None:
    result, paths = run(tmp_path, _create_plays([_create_pending_pod(), pod("running", {GPU: "6"})]), *_ARGUMENTS)
    assert result.exit_code == 1
    assert result.stderr == ""
    resources = [path.split("?")[0].rpartition("/")[2] for path in paths]
    assert resources == ["version", "namespaces", "nodes", *_RESOURCES, "pods", *_CLAIMS]
    (found,) = _read_json(result)["items"]
    assert [each["name"] for each in found["closestNodes"][0]["consumers"]] == ["running"]


_PRELIMINARY = (
    "tallygate: the rules of Kubernetes 1.38 are preliminary: they are those of a pre-release, and no release has been "
    "compared with them\n"
)


@pytest.mark.parametrize(
    ("version", "scheduler", "stderr"),
    [
        pytest.param(VERSION, {"rules": "1.37", "cluster": "v1.37.2"}, "", id="modelled"),
        pytest.param(
            respond_json(200, gitVersion="v1.36.9-eks-1"), {"rules": "1.36", "cluster": "v1.36.9-eks-1"}, "", id="older"
        ),
        pytest.param(
            respond_json(200, gitVersion="v1.41.0"),
            {"rules": "1.38", "cluster": "v1.41.0"},
            f"{_PRELIMINARY}tallygate: the cluster runs Kubernetes v1.41.0, and the rules of kube-scheduler 1.38 apply "
            "here: verdicts and messages of that version may differ\n",
            id="too new",
        ),
        pytest.param(
            respond_json(200, gitVersion="v1.38.0"),
            {"rules": "1.38", "cluster": "v1.38.0"},
            _PRELIMINARY,
            id="preliminary",
        ),
        pytest.param(_FORBIDDEN, {"rules": "1.37", "cluster": None}, "does not report its version", id="forbidden"),
        pytest.param(respond_json(200, major="1"), {"rules": "1.37", "cluster": None}, "does not report", id="no text"),
    ],
)
def test_the_rules_are_those_of_the_version_of_the_cluster(
    tmp_path: Path, version: Responder, scheduler: Object, stderr: str
) -> None:
    plays = _create_plays_after_version([_create_pending_pod()])
    for command in (_ARGUMENTS, ("headroom", "-f", "-", "-o", "json")):
        stdin = "" if command is _ARGUMENTS else json.dumps(_create_pending_pod() | {"kind": "Pod", "apiVersion": "v1"})
        result, _ = run(tmp_path, [version, *plays], *command, stdin=stdin)
        assert result.stderr == stderr if stderr.endswith("\n") else stderr in result.stderr
        assert [each["scheduler"] for each in _read_json(result)["items"]] == [scheduler]


@pytest.mark.parametrize(
    ("kubernetes", "rules", "stderr"),
    [("1.36", "1.36", ""), ("v1.38.0", "1.38", _PRELIMINARY)],
)
def test_an_option_chooses_the_rules_whatever_version_the_cluster_has(
    tmp_path: Path, kubernetes: str, rules: str, stderr: str
) -> None:
    plays = [VERSION, *_create_plays_after_version([_create_pending_pod()])]
    result, _ = run(tmp_path, plays, *_ARGUMENTS, "--kubernetes", kubernetes)
    assert result.stderr == stderr
    assert [each["scheduler"] for each in _read_json(result)["items"]] == [{"rules": rules, "cluster": "v1.37.2"}]


@pytest.mark.parametrize("text", ["1.20", "1", "next", "1.380"])
def test_the_option_names_the_versions_whose_rules_are_known(text: str) -> None:
    result = CliRunner().invoke(root, [*_ARGUMENTS, "--kubernetes", text])
    assert result.exit_code == 2
    assert f"{text!r} is not a version whose rules are known here; there are 1.36, 1.37, 1.38" in result.stderr


def test_a_snapshot_has_the_version_of_its_cluster(tmp_path: Path) -> None:
    path = tmp_path / "now.json"
    plays = [respond_json(200, gitVersion="v1.36.3"), *_create_snapshot_plays([_create_pending_pod()])]
    run(tmp_path, plays, "snapshot", str(path))
    stored = CliRunner().invoke(root, [*_ARGUMENTS, "--snapshot", str(path)])
    assert json.loads(stored.stdout)["items"][0]["scheduler"] == {"rules": "1.36", "cluster": "v1.36.3"}
    chosen = CliRunner().invoke(root, [*_ARGUMENTS, "--snapshot", str(path), "--kubernetes", "1.38"])
    assert json.loads(chosen.stdout)["items"][0]["scheduler"] == {"rules": "1.38", "cluster": "v1.36.3"}
    without = json.loads(path.read_text())
    without["items"] = [each for each in without["items"] if each["kind"] != "ClusterVersion"]
    path.write_text(json.dumps(without))
    stored = CliRunner().invoke(root, [*_ARGUMENTS, "--snapshot", str(path)])
    assert json.loads(stored.stdout)["items"][0]["scheduler"] == {"rules": "1.37", "cluster": None}


def test_a_snapshot_has_the_same_prediction(tmp_path: Path) -> None:
    """Predict a pod with claims and a priority, which decide here."""
    pending_pod = _create_pending_pod(
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}], priorityClassName="gold"
    )
    pods = [pending_pod, pod("running", {GPU: "6"})]
    found = {"persistentvolumeclaims": page([_CLAIM]), "priorityclasses": page([_GOLD])}
    live, _ = run(tmp_path, _create_plays(pods, **found), *_ARGUMENTS)
    (prediction,) = _read_json(live)["items"]
    assert prediction["message"] == '0/1 nodes are available: persistentvolume "missing" not found. not found'
    path = tmp_path / "now.json"
    taken, _ = run(tmp_path, [VERSION, *_create_snapshot_plays(pods, **found)], "snapshot", str(path))
    assert (taken.exit_code, taken.stderr) == (0, "")
    stored = CliRunner().invoke(root, [*_ARGUMENTS, "--snapshot", str(path)])
    assert (stored.exit_code, stored.stdout) == (live.exit_code, live.stdout)


_GANG: Object = {
    "metadata": {"name": "gang", "namespace": "team-a", "uid": "gang", "resourceVersion": "9"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    "status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable"}]},
}
_GATE_UNKNOWN = "whether kube-scheduler has the feature gate GenericWorkload on is not known"
_GATE_HINT = "tallygate: if the cluster has the feature gates of PodGroups on, name them with --feature-gates\n"


@pytest.mark.parametrize(
    ("groups", "running", "verdict", "reason"),
    [
        pytest.param(page([_GANG]), {"schedulingGroup": {"podGroupName": "gang"}}, "fits now", "", id="a quorum"),
        pytest.param(page([_GANG]), {}, "not now", "1 of 2 pods of PodGroup gang exist", id="no quorum"),
        pytest.param(page([]), {}, "unknown", _GATE_UNKNOWN, id="no group that the scheduler has tried"),
        pytest.param(NO_LEDGERS, {}, "unknown", _GATE_UNKNOWN, id="no such kind"),
        pytest.param(_FORBIDDEN, {}, "unknown", _GATE_UNKNOWN, id="forbidden"),
    ],
)
def test_groups_of_pods_are_read_from_a_cluster_and_from_its_snapshot(
    tmp_path: Path, groups: Responder, running: Object, verdict: str, reason: str
) -> None:
    pods = [_create_pending_pod(schedulingGroup={"podGroupName": "gang"}), pod("running", {GPU: "1"}, spec=running)]
    live, _ = run(tmp_path, _create_plays(pods, podgroups=groups), *_ARGUMENTS)
    (found,) = _read_json(live)["items"]
    assert found["verdict"] == verdict
    assert reason in str([found["holdReason"], *found["unknown"]])
    assert live.stderr == (_GATE_HINT if reason == _GATE_UNKNOWN else "")
    path = tmp_path / "now.json"
    run(tmp_path, [VERSION, *_create_snapshot_plays(pods, podgroups=groups)], "snapshot", str(path))
    stored = CliRunner().invoke(root, [*_ARGUMENTS, "--snapshot", str(path)])
    assert (stored.exit_code, stored.stdout) == (live.exit_code, live.stdout)


def test_a_snapshot_has_the_job_of_a_group_and_its_claims(tmp_path: Path) -> None:
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}]
    status = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "gang-gpus-x"}]}
    group = {**_GANG, "metadata": {**_GANG["metadata"], "ownerReferences": owners}, "status": status}
    path = tmp_path / "now.json"
    plays = _create_snapshot_plays([_create_pending_pod()], podgroups=page([group]))
    run(tmp_path, [VERSION, *plays], "snapshot", str(path))
    (stored,) = (item for item in json.loads(path.read_text())["items"] if item["kind"] == "PodGroup")
    assert stored["metadata"]["ownerReferences"] == owners
    assert stored["status"] == status


def test_a_forbidden_list_is_reported_and_not_guessed(tmp_path: Path) -> None:
    pending_pod = _create_pending_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    closed = {"persistentvolumes": _FORBIDDEN, "csinodes": _FORBIDDEN, "persistentvolumeclaims": page([_CLAIM])}
    result, _ = run(tmp_path, _create_plays([pending_pod], **closed), *_ARGUMENTS)
    (found,) = _read_json(result)["items"]
    assert found["verdict"] == "unknown"
    assert found["unknown"] == ["volumes: claims, volumes and storage classes of this cluster are not known"]
    assert result.stderr.count("may not be listed: the API server says 403: may not") == 2
    taken, _ = run(tmp_path, [VERSION, *_create_snapshot_plays([pending_pod], **closed)], "snapshot")
    assert taken.stderr.count("are left out: the API server says 403: may not") == 2
    assert "so is all else about volumes" in taken.stderr
    path = tmp_path / "now.json"
    path.write_text(taken.stdout)
    stored = CliRunner().invoke(root, [*_ARGUMENTS, "--snapshot", str(path)])
    assert (stored.exit_code, stored.stdout) == (result.exit_code, result.stdout)


def test_an_empty_list_of_claims_is_not_unknown(tmp_path: Path) -> None:
    pending_pod = _create_pending_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    empty = {"persistentvolumeclaims": page([]), "persistentvolumes": page([])}
    result, _ = run(tmp_path, _create_plays([pending_pod], **empty), *_ARGUMENTS)
    (found,) = _read_json(result)["items"]
    assert found["message"] == '0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
    assert found["unknown"] == []
    path = tmp_path / "now.json"
    run(
        tmp_path,
        [VERSION, *_create_snapshot_plays([pending_pod], **empty)],
        "snapshot",
        str(path),
    )
    assert CliRunner().invoke(root, [*_ARGUMENTS, "--snapshot", str(path)]).stdout == result.stdout


_GPU_CLASS: Object = {"metadata": {"name": "gpu", "uid": "gpu", "resourceVersion": "6"}, "spec": {}}
_DEVICES: Object = {
    "metadata": {"name": "n1-gpus", "uid": "slice", "resourceVersion": "7"},
    "spec": {
        "driver": "gpu.example.com",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n1",
        "devices": [
            {"name": "gpu-0", "taints": [{"key": "sick", "effect": "NoExecute"}]},
            {"name": "gpu-1", "basicUnknown": 1},
        ],
    },
}
_DEVICE_CLAIM: Object = {
    "metadata": {"name": "two", "namespace": "team-a", "uid": "two", "resourceVersion": "8"},
    "spec": {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu", "count": 2}}]}},
}
_ALL_DEVICES = {
    "deviceclasses": page([_GPU_CLASS]),
    "resourceclaims": page([_DEVICE_CLAIM]),
    "resourceclaimtemplates": page([]),
    "resourceslices": page([_DEVICES]),
}
_CLAIMING = {"resourceClaims": [{"name": "gpus", "resourceClaimName": "two"}]}


def _create_claiming_pod() -> Object:
    made = pod("waits", {}, spec=_CLAIMING, status={"phase": "Pending"})
    del made["spec"]["nodeName"]
    return made


def test_devices_are_predicted_from_a_cluster_and_from_its_snapshot(tmp_path: Path) -> None:
    live, _ = run(tmp_path, _create_plays([_create_claiming_pod()], **_ALL_DEVICES), *_ARGUMENTS)
    (found,) = _read_json(live)["items"]
    assert (found["verdict"], found["unknown"]) == ("not now", [])
    (shortfall,) = found["closestNodes"][0]["deviceShortfalls"]
    assert (shortfall["claim"], shortfall["requests"], shortfall["missing"]) == ("team-a/two", 2, 1)
    assert shortfall["pools"][0]["unsuitable"] == [{"reason": "has the taint sick:NoExecute", "devices": 1}]
    path = tmp_path / "now.json"
    taken, _ = run(
        tmp_path, [VERSION, *_create_snapshot_plays([_create_claiming_pod()], **_ALL_DEVICES)], "snapshot", str(path)
    )
    assert (taken.exit_code, taken.stderr) == (0, "")
    stored = CliRunner().invoke(root, [*_ARGUMENTS, "--snapshot", str(path)])
    assert (stored.exit_code, stored.stdout) == (live.exit_code, live.stdout)


@pytest.mark.parametrize(
    ("limit_ranges", "unknown"),
    [(page([]), []), (_FORBIDDEN, ["limitranges"])],
    ids=["the cluster has none", "they may not be listed"],
)
def test_limit_ranges_are_unknown_if_they_may_not_be_listed(
    tmp_path: Path, limit_ranges: Responder, unknown: list[str]
) -> None:
    plays = _create_plays([], limitranges=limit_ranges, priorityclasses=page([_GOLD]))
    new = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}]}}
    result, _ = run(tmp_path, plays, "headroom", "-f", "-", stdin=json.dumps(new))
    assert re.findall(r"the (.*) of this cluster are not known: new pods", result.stderr) == unknown


def test_a_device_that_is_awaited_for_too_long_needs_the_time_of_a_cluster(tmp_path: Path) -> None:
    result = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-1", "request": "gpus"}
    allocation = {
        "devices": {"results": [result | {"bindingConditions": ["ready"]}]},
        "allocationTimestamp": "2026-01-01T10:00:00Z",
    }
    reserved_for = [{"resource": "pods", "name": "waits", "uid": _create_claiming_pod()["metadata"]["uid"]}]
    awaited = _DEVICE_CLAIM | {"status": {"allocation": allocation, "reservedFor": reserved_for}}
    plays = _ALL_DEVICES | {"resourceclaims": page([awaited])}
    live, _ = run(tmp_path, _create_plays([_create_claiming_pod()], **plays), *_ARGUMENTS)
    assert [each["verdict"] for each in _read_json(live)["items"]] == ["not now"]
    path = tmp_path / "now.json"
    run(tmp_path, [VERSION, *_create_snapshot_plays([_create_claiming_pod()], **plays)], "snapshot", str(path))
    stored = CliRunner().invoke(root, [*_ARGUMENTS, "--snapshot", str(path)])
    assert [each["verdict"] for each in _read_json(stored)["items"]] == ["unknown"]


@pytest.mark.parametrize(
    ("lacking", "live_reason"),
    [
        pytest.param(
            dict.fromkeys(_ALL_DEVICES, NO_LEDGERS),
            "the API server does not serve deviceclasses, resourceclaims, resourceclaimtemplates, resourceslices",
            id="an API server without devices",
        ),
        *(
            pytest.param({name: _FORBIDDEN}, f"{name} may not be listed", id=f"forbidden {name}")
            for name in _ALL_DEVICES
        ),
        pytest.param(
            {
                "resourceslices": page(
                    [_DEVICES | {"spec": {**_DEVICES["spec"], "devices": [{"name": "a", "taints": 7}]}}]
                )
            },
            "ResourceSlice n1-gpus: Expected `array | null`, got `int` - at `$.taints`",
            id="a slice that cannot be read",
        ),
    ],
)
def test_without_one_kind_about_devices_a_pod_with_a_claim_is_unknown(
    tmp_path: Path, lacking: dict[str, Responder], live_reason: str
) -> None:
    plays = _ALL_DEVICES | lacking
    live, _ = run(tmp_path, _create_plays([_create_claiming_pod()], **plays), *_ARGUMENTS)
    (found,) = _read_json(live)["items"]
    known = "resource claims: the claims and devices of this cluster are not known"
    assert (found["verdict"], found["unknown"]) == ("unknown", [f"{known}: {live_reason}"])
    path = tmp_path / "now.json"
    run(tmp_path, [VERSION, *_create_snapshot_plays([_create_claiming_pod()], **plays)], "snapshot", str(path))
    (stored,) = json.loads(CliRunner().invoke(root, [*_ARGUMENTS, "--snapshot", str(path)]).stdout)["items"]
    assert stored["verdict"] == "unknown"
    assert stored["unknown"][0].startswith(known)


_MAINTENANCE: Object = {
    "metadata": {"name": "upkeep", "uid": "rule", "resourceVersion": "9"},
    "spec": {"deviceSelector": {"device": "gpu-1"}, "taint": {"key": "upkeep", "effect": "NoSchedule"}},
}


def test_taint_rules_are_read_from_a_cluster_and_from_its_snapshot(tmp_path: Path) -> None:
    plays = _ALL_DEVICES | {"devicetaintrules": page([_MAINTENANCE])}
    live, _ = run(tmp_path, _create_plays([_create_claiming_pod()], **plays), *_ARGUMENTS)
    (found,) = _read_json(live)["items"]
    (shortfall,) = found["closestNodes"][0]["deviceShortfalls"]
    assert shortfall["pools"][0]["unsuitable"] == [
        {"reason": "has the taint sick:NoExecute", "devices": 1},
        {"reason": "has the taint upkeep:NoSchedule of DeviceTaintRule upkeep", "devices": 1},
    ]
    path = tmp_path / "now.json"
    run(tmp_path, [VERSION, *_create_snapshot_plays([_create_claiming_pod()], **plays)], "snapshot", str(path))
    stored = CliRunner().invoke(root, [*_ARGUMENTS, "--snapshot", str(path)])
    assert (stored.exit_code, stored.stdout, stored.stderr) == (live.exit_code, live.stdout, "")


@pytest.mark.parametrize(
    ("version", "unknown"),
    [
        pytest.param(VERSION, ["devicetaintrules may not be listed"], id="1.37"),
        pytest.param(respond_json(200, gitVersion="v1.36.3"), [], id="1.36, whose scheduler reads none"),
    ],
)
def test_taint_rules_that_may_not_be_listed_leave_devices_unknown(
    tmp_path: Path, version: Responder, unknown: list[str]
) -> None:
    plays = _create_plays_after_version([_create_claiming_pod()], **_ALL_DEVICES, devicetaintrules=_FORBIDDEN)
    live, _ = run(tmp_path, [version, *plays], *_ARGUMENTS)
    (found,) = _read_json(live)["items"]
    assert [each.partition("not known: ")[2] for each in found["unknown"]] == unknown
    assert "devicetaintrules may not be listed" in live.stderr


def test_a_snapshot_without_taint_rules_is_reported(tmp_path: Path) -> None:
    """Evaluate devices by the taints of their drivers: the file may be written by an older version, or by kubectl."""
    path = tmp_path / "now.json"
    plays = _ALL_DEVICES | {"devicetaintrules": _FORBIDDEN}
    run(tmp_path, [VERSION, *_create_snapshot_plays([_create_claiming_pod()], **plays)], "snapshot", str(path))
    stored = CliRunner().invoke(root, [*_ARGUMENTS, "--snapshot", str(path)])
    assert stored.stderr == "tallygate: only the taints of drivers count: the snapshot has no devicetaintrules\n"
    assert json.loads(stored.stdout)["items"][0]["verdict"] == "not now"


@pytest.mark.parametrize(
    ("pods", "found", "sentence"),
    [
        ([pod("running", {GPU: "many"})], {}, "has stored an invalid quantity"),
        ([{"metadata": {"name": "invalid"}}], {}, "a page that is no list of pods"),
    ],
)
def test_an_unreadable_list_is_one_sentence(
    tmp_path: Path, pods: list[Object], found: dict[str, Responder], sentence: str
) -> None:
    """Exit with code 2, and list nothing after the pods."""
    result, _ = run(tmp_path, _create_plays(pods, **found)[: -len(_CLAIMS)], *_ARGUMENTS)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_failed_list_of_volumes_is_one_sentence(tmp_path: Path) -> None:
    """Distinguish the failure from a cluster without volumes."""
    plays = [VERSION, page([namespace("team-a")]), page([_NODE]), respond_json(500)]
    result, _ = run(tmp_path, plays, *_ARGUMENTS)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("tallygate: persistentvolumeclaims cannot be listed at http://127.0.0.1")


def test_a_prediction_needs_the_permission_for_nodes(tmp_path: Path) -> None:
    """Name also what needs no such permission: here no server of asks is installed."""
    result, _ = run(tmp_path, [VERSION, page([namespace("team-a")]), _FORBIDDEN, NO_LEDGERS], *_ARGUMENTS)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("tallygate: nodes cannot be listed at http://127.0.0.1")
    assert "the gate could answer without this right" in result.stderr


def test_a_scheduled_pod_of_a_manifest_is_skipped(tmp_path: Path) -> None:
    """Predict only the pending pods of a namespace that is piped as a whole."""
    both = {"apiVersion": "v1", "kind": "List", "items": [pod("running", {GPU: "6"}), _create_pending_pod()]}
    manifest = tmp_path / "pods.json"
    manifest.write_text(json.dumps(both))
    result, _ = run(tmp_path, _create_plays([]), "predict", "-f", str(manifest), "-o", "json")
    assert [each["object"]["name"] for each in _read_json(result)["items"]] == ["waits"]
    assert result.stderr == "tallygate: Pod team-a/running is on node n1 already, and is skipped\n"


def test_a_terminating_pod_is_not_pending(tmp_path: Path) -> None:
    """Skip it, as the scheduler does."""
    terminating_pod = _create_pending_pod()
    terminating_pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    result, _ = run(tmp_path, _create_plays([terminating_pod]), *_ARGUMENTS)
    assert result.exit_code == 2
    assert "no pod of that name in namespace team-a is pending; no pod is pending" in result.stderr


def test_headroom_counts_copies_of_a_running_pod(tmp_path: Path) -> None:
    """Ignore the node of that pod."""
    manifest = tmp_path / "pod.json"
    manifest.write_text(json.dumps(pod("running", {GPU: "1"}, spec={"nodeName": "elsewhere"})))
    result, _ = run(
        tmp_path, _create_plays([pod("running", {GPU: "1"})]), "headroom", "-f", str(manifest), "-o", "json"
    )
    (found,) = _read_json(result)["items"]
    assert found["copies"] == 7


def test_headroom_is_counted_in_a_cluster(tmp_path: Path) -> None:
    manifest = tmp_path / "pod.json"
    manifest.write_text(json.dumps(_create_pending_pod()))
    result, _ = run(
        tmp_path, _create_plays([pod("running", {GPU: "1"})]), "headroom", "-f", str(manifest), "-o", "json"
    )
    (found,) = _read_json(result)["items"]
    assert (found["copies"], found["message"]) == (2, f"0/1 nodes are available: 1 Insufficient {GPU}.")


_TRAINER: Object = {
    "metadata": {
        "name": "trainer-1",
        "namespace": "team-a",
        "uid": "rs",
        "resourceVersion": "7",
        "managedFields": [{"manager": "hunter2"}],
        "ownerReferences": [{"kind": "Deployment", "name": "trainer", "uid": "d", "controller": True}],
    },
    "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "a", "env": ["hunter2"]}]}}},
    "status": {
        "replicas": 1,
        "conditions": [
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "cap gpus exceeded"}
        ],
    },
}
_SUMS: Object = {
    "metadata": {"name": "sums", "namespace": "team-a", "uid": "job", "resourceVersion": "8"},
    "spec": {"parallelism": 1},
    "status": {},
}
_SUMS_EVENT: Object = {
    "metadata": {"name": "sums.1", "namespace": "team-a", "uid": "event", "resourceVersion": "9"},
    "involvedObject": {"kind": "Job", "namespace": "team-a", "name": "sums"},
    "reason": "FailedCreate",
    "message": "Error creating: no room",
}
_REJECTED = {"replicasets": page([_TRAINER]), "jobs": page([_SUMS]), "events": page([_SUMS_EVENT])}
_REJECTED_TEXT = """\
Deployment team-a/trainer: would be rejected
    2 pods were rejected: cap gpus exceeded
Job team-a/sums: would be rejected
    1 pod was rejected: no room
"""


def test_pods_that_controllers_could_not_create_are_listed(tmp_path: Path) -> None:
    plays = [*_create_plays([]), *_create_creator_plays(**_REJECTED)]
    result, paths = run(tmp_path, plays, "predict", "pods", "--namespace", "team-a")
    assert (result.stdout, result.stderr) == (_REJECTED_TEXT, "")
    assert [path.split("?")[0].rpartition("/")[2] for path in paths[-len(_CREATORS) :]] == _CREATORS
    assert "fieldSelector=reason%3DFailedCreate" in paths[-1]


def test_a_snapshot_has_the_pods_that_controllers_could_not_create(tmp_path: Path) -> None:
    now = tmp_path / "now.json"
    plays = [VERSION, *_create_snapshot_plays([], **_REJECTED)]
    run(tmp_path, plays, "snapshot", str(now))
    result = CliRunner().invoke(root, ["predict", "pods", "-n", "team-a", "--snapshot", str(now)])
    assert result.stdout == _REJECTED_TEXT
    assert "hunter2" not in now.read_text()


def test_controllers_that_may_not_be_listed_are_reported(tmp_path: Path) -> None:
    plays = [*_create_plays([]), *_create_creator_plays(jobs=_FORBIDDEN)]
    result, _ = run(tmp_path, plays, "predict", "pods", "--namespace", "team-a")
    assert "tallygate: jobs may not be listed: the API server says 403: may not" in result.stderr
