"""`tallygate usage` and `tallygate snapshot` against an API server: pages, errors, and omitted fields."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tallygate.cli.sources import snapshot_items
from tallygate.cluster.kinds import CREATOR_RESOURCES
from tests.cli.usage.clusters import GPU, Object, namespace, pod
from tests.kube.kubeconfig import write_kubeconfig
from tests.state.kubernetes.scripted_api_server import Responder, respond_json, server

CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: ["team-*"]}, hard: {nvidia.com/gpu: 8}}
"""
NODE: Object = {
    "metadata": {"name": "n1", "uid": "n", "resourceVersion": "7", "annotations": {"a": "hunter2"}},
    "status": {"capacity": {GPU: "8"}, "allocatable": {GPU: "8"}, "images": [{"names": ["hunter2"]}]},
}
VERSION = respond_json(200, gitVersion="v1.37.2")
NO_LEDGERS = respond_json(404, kind="Status", message="the server could not find the requested resource", code=404)


def page(items: Sequence[Object], continue_token: str = "", revision: int = 100) -> Responder:
    """Return the response with one page of a list."""
    bare = [{key: value for key, value in item.items() if key not in {"kind", "apiVersion"}} for item in items]
    return respond_json(
        200, kind="List", metadata={"resourceVersion": f"{revision}", "continue": continue_token}, items=bare
    )


def run(folder: Path, plays: Sequence[Responder], *arguments: str, stdin: str = "") -> tuple[Result, list[str]]:
    """Run a command against a server with these responses; return the result and the requested paths."""
    (folder / "cap.yaml").write_text(CAP)
    with server(*plays) as played:
        options = ["--kubeconfig", str(write_kubeconfig(folder, played.server))]
        result = CliRunner().invoke(root, [*arguments, *options], input=stdin)
    return result, [paths.path for paths in played.requests]


def usage(folder: Path, plays: Sequence[Responder], *arguments: str) -> tuple[Result, list[str]]:
    """Run `tallygate usage` for the cap, in a cluster without devices and nodes if the responses end with the pods."""
    return run(folder, [*plays, *[NO_LEDGERS] * 3], "usage", "--policies", str(folder / "cap.yaml"), *arguments)


def read_used(result: Result) -> dict[str, int]:
    """Return the used amount of each namespace."""
    assert result.exit_code == 0, result.stderr
    return {line["namespace"]: line["used"] for line in json.loads(result.stdout)["items"]}


TEAM = [page([namespace("team-a")])]


def test_lists_are_read_page_by_page(tmp_path: Path) -> None:
    """List ledgers first, then pods, devices and nodes."""
    pods = [pod(f"p{number}", {GPU: "1"}) for number in range(3)]
    plays = [NO_LEDGERS, *TEAM, page(pods[:2], "next"), page(pods[2:])]
    result, paths = usage(tmp_path, plays, "-o", "json")
    assert read_used(result) == {"team-a": 3}
    assert [path.split("?")[0] for path in paths] == [
        "/apis/tallygate.dev/v1alpha1/capledgers",
        "/api/v1/namespaces",
        "/api/v1/pods",
        "/api/v1/pods",
        "/apis/resource.k8s.io/v1/deviceclasses",
        "/apis/resource.k8s.io/v1/resourceclaims",
        "/api/v1/nodes",
    ]
    assert "continue=next" in paths[3]


def test_unhealthy_devices_are_read_from_nodes(tmp_path: Path) -> None:
    sick = {**NODE, "status": {"capacity": {GPU: "8"}, "allocatable": {GPU: "5"}}}
    result, _ = run(
        tmp_path,
        [NO_LEDGERS, *TEAM, page([]), NO_LEDGERS, NO_LEDGERS, page([sick])],
        *("usage", "--policies", str(tmp_path / "cap.yaml"), "-o", "json"),
    )
    assert json.loads(result.stdout)["unhealthy"] == [{"node": "n1", "resource": GPU, "unhealthy": 3, "capacity": 8}]


def test_unhealthy_devices_are_unknown_without_the_permission_for_nodes(tmp_path: Path) -> None:
    forbidden = respond_json(403, kind="Status", message="nodes is forbidden", code=403)
    plays = [NO_LEDGERS, *TEAM, page([pod("p", {GPU: "2"})]), NO_LEDGERS, NO_LEDGERS, forbidden]
    result, _ = run(tmp_path, plays, "usage", "--policies", str(tmp_path / "cap.yaml"))
    assert result.exit_code == 0
    assert "note: unhealthy devices are unknown: nodes may not be listed: the API server says 403" in result.stderr


def test_nodes_are_not_listed_for_a_cap_without_extended_resources(tmp_path: Path) -> None:
    (tmp_path / "cpus.yaml").write_text(CAP.replace(GPU, "cpu"))
    plays = [NO_LEDGERS, *TEAM, page([]), NO_LEDGERS, NO_LEDGERS]
    result, paths = run(tmp_path, plays, "usage", "--policies", str(tmp_path / "cpus.yaml"))
    assert result.exit_code == 0, result.stderr
    assert not [path for path in paths if "/nodes" in path]


@pytest.mark.parametrize(
    "broken",
    [respond_json(410, kind="Status", code=410), page([pod("q", {GPU: "1"})], revision=101)],
    ids=["expired", "torn"],
)
def test_a_list_that_expires_is_restarted(tmp_path: Path, broken: Responder) -> None:
    """Restart with larger pages, also after a page of another revision."""
    one = pod("p", {GPU: "1"})
    result, paths = usage(tmp_path, [NO_LEDGERS, *TEAM, page([one], "next"), broken, page([one])], "-o", "json")
    assert read_used(result) == {"team-a": 1}
    assert "limit=2000" in paths[-4]


def test_a_list_that_expires_repeatedly_is_an_error(tmp_path: Path) -> None:
    expired = [page([], "next"), respond_json(410, kind="Status", message="too old", code=410)]
    result, _ = run(tmp_path, [NO_LEDGERS, *TEAM, *expired * 3], "usage", "--policies", str(tmp_path / "cap.yaml"))
    assert result.exit_code == 2
    assert "pods cannot be listed at http://127.0.0.1" in result.stderr


def test_pods_are_counted_without_the_permission_for_ledgers(tmp_path: Path) -> None:
    """Report it once."""
    forbidden = respond_json(403, kind="Status", message='capledgers is forbidden: User "you" cannot list', code=403)
    result, _ = usage(tmp_path, [forbidden, *TEAM, page([pod("p", {GPU: "2"})])])
    assert result.exit_code == 0
    assert result.stderr.count("reserved amounts are unknown: CapLedgers may not be read: the API server says 403") == 1


@pytest.mark.parametrize(
    ("plays", "sentence"),
    [
        ([respond_json(401, kind="Status", message="Unauthorized", code=401)], "capledgers cannot be listed at http"),
        ([NO_LEDGERS, respond_json(403, kind="Status", message="no", code=403)], "the API server says 403: no"),
        ([NO_LEDGERS, respond_json(500)], "namespaces cannot be listed"),
        (
            [NO_LEDGERS, respond_json(200, items=[{}], metadata={"resourceVersion": "1"})],
            "a page that is no list of namespaces",
        ),
    ],
)
def test_an_unreadable_list_is_one_sentence(tmp_path: Path, plays: list[Responder], sentence: str) -> None:
    """Exit with code 2; after a missing right, a second line says what needs no right."""
    for command, first in ((("usage", "--policies", str(tmp_path / "cap.yaml")), []), (("snapshot",), [VERSION])):
        result, _ = run(tmp_path, [*first, *plays], *command)
        assert (result.exit_code, result.stdout) == (2, "")
        assert sentence in result.stderr
        advises = "403" in sentence and "usage" in command
        assert len(result.stderr.splitlines()) == 1 + advises


def test_an_unreachable_server_is_one_sentence(tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path, "http://127.0.0.1:1")
    result = CliRunner().invoke(root, ["usage", "--kubeconfig", str(config)])
    assert result.exit_code == 2
    assert result.stderr.startswith("tallygate: capledgers cannot be listed at http://127.0.0.1:1: the API server")
    assert len(result.stderr.splitlines()) == 1


def create_snapshot_plays(pods: Sequence[Object], ledgers: Responder = NO_LEDGERS) -> list[Responder]:
    """Return the responses to `tallygate snapshot`, in their order."""
    others = [NO_LEDGERS for _ in (*snapshot_items.VOLUME_CODECS, *snapshot_items.SCHEDULING_CODECS)]
    claims = [NO_LEDGERS for _ in snapshot_items.CLAIM_CODECS]
    lists = [page([namespace("team-a", gpu="yes")]), page([NODE]), *others, page(pods, revision=200), *claims]
    return [VERSION, ledgers, *lists, *(NO_LEDGERS for _ in CREATOR_RESOURCES)]


def test_check_and_usage_read_a_snapshot(tmp_path: Path) -> None:
    """Compare the usage of the snapshot with that of the cluster."""
    labels = {"annotations": {"note": "hunter2"}, "labels": {"app": "x"}, "managedFields": [{"manager": "hunter2"}]}
    pods = [
        pod("p", {GPU: "6"}, meta=labels),
        pod("deleted", {GPU: "1"}, meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ]
    path = tmp_path / "now.json"
    result, _ = run(tmp_path, create_snapshot_plays(pods), "snapshot", str(path))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    listed = json.loads(path.read_bytes())
    assert [item["kind"] for item in listed["items"]] == [
        "ClusterVersion",
        "Namespace",
        "Node",
        "PersistentVolumeClaimList",
        "LimitRangeList",
        "RuntimeClassList",
        "ResourceQuotaList",
        "DeviceClassList",
        "PodGroupList",
        "Pod",
        "Pod",
        "ResourceClaimList",
        "ResourceSliceList",
        "DeviceTaintRuleList",
    ]
    assert listed["metadata"] == {"resourceVersion": "200"}
    arguments = ["--policies", str(tmp_path / "cap.yaml"), "--snapshot", str(path)]
    stored = CliRunner().invoke(root, ["usage", *arguments, "-o", "json"])
    live, _ = usage(tmp_path, [NO_LEDGERS, *TEAM, page(pods)], "-o", "json")
    assert json.loads(stored.stdout)["items"] == json.loads(live.stdout)["items"]
    manifest = tmp_path / "more.json"
    manifest.write_text(json.dumps(pod("more", {GPU: "2"})))
    found = CliRunner().invoke(root, ["check", *arguments, "-o", "json", str(manifest)])
    assert [each["code"] for each in json.loads(found.stdout)["findings"]] == ["TG201"]


def test_a_snapshot_has_the_owners_and_times_of_pods(tmp_path: Path) -> None:
    """Keep what the hours of a pod are counted by, and nothing else of the states of its containers."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "run", "uid": "j", "controller": True}
    ended = pod("p", {GPU: "6"}, meta={"ownerReferences": [owner]})
    terminated = {"finishedAt": "2026-01-01T00:00:00Z", "message": "hunter2", "exitCode": 1}
    status = {"name": "main", "state": {"terminated": terminated}, "lastState": {"terminated": terminated}}
    ended["status"] |= {"startTime": "2025-12-31T00:00:00Z", "containerStatuses": [status]}
    result, _ = run(tmp_path, create_snapshot_plays([ended]), "snapshot")
    (stored,) = [item for item in json.loads(result.stdout)["items"] if item["kind"] == "Pod"]
    assert stored["metadata"]["ownerReferences"] == [owner]
    assert stored["status"]["startTime"] == "2025-12-31T00:00:00Z"
    assert stored["status"]["containerStatuses"] == [
        {"name": "main", "state": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}}
    ]


def test_a_snapshot_has_no_private_fields(tmp_path: Path) -> None:
    """Omit environment, image, annotations and managed fields."""
    pods = [pod("p", {GPU: "6"}, meta={"annotations": {"note": "hunter2"}, "managedFields": [{"manager": "hunter2"}]})]
    result, _ = run(tmp_path, create_snapshot_plays(pods), "snapshot")
    assert result.exit_code == 0
    assert "hunter2" not in result.stdout
    assert "secret" not in result.stdout
    assert '"nvidia.com/gpu":"6"' in result.stdout


def test_a_snapshot_without_the_permission_for_ledgers_reports_it(tmp_path: Path) -> None:
    """Write the other objects."""
    forbidden = respond_json(403, kind="Status", message="capledgers is forbidden", code=403)
    result, _ = run(tmp_path, create_snapshot_plays([], forbidden), "snapshot")
    assert result.exit_code == 0
    assert result.stderr == "tallygate: CapLedgers are left out: the API server says 403: capledgers is forbidden\n"
    assert json.loads(result.stdout)["items"]


def test_a_ledger_of_a_newer_version_is_omitted_and_reported(tmp_path: Path) -> None:
    """Skip a ledger with unknown fields."""
    newer = {"metadata": {"name": "l", "namespace": "gate", "uid": "l", "resourceVersion": "9"}, "spec": {"cap": "x"}}
    result, _ = run(tmp_path, create_snapshot_plays([], page([{**newer, "status": {"grants": 1}}])), "snapshot")
    assert result.exit_code == 0
    assert "capledger gate/l is left out" in result.stderr
    assert "grants" not in result.stdout


def test_a_failed_snapshot_keeps_the_old_file(tmp_path: Path) -> None:
    """Leave no other file."""
    path = tmp_path / "now.json"
    path.write_text("old")
    result, _ = run(tmp_path, [*create_snapshot_plays([])[:-1], respond_json(500)], "snapshot", str(path))
    assert result.exit_code == 2
    assert path.read_text() == "old"
    assert sorted(left.name for left in tmp_path.iterdir()) == ["cap.yaml", "kubeconfig", "now.json"]


def test_an_unwritable_snapshot_is_a_usage_error(tmp_path: Path) -> None:
    """Name the path."""
    result, _ = run(tmp_path, create_snapshot_plays([]), "snapshot", str(tmp_path / "nowhere" / "now.json"))
    assert result.exit_code == 2
    assert result.stderr.endswith("nowhere/now.json: cannot be written: No such file or directory\n")


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    result, _ = run(tmp_path, create_snapshot_plays([]), "snapshot", str(pipe))
    snapshot: dict[str, Any] = json.loads(os.read(reading, 65536))
    os.close(reading)
    assert result.exit_code == 0
    assert snapshot["kind"] == "List"
