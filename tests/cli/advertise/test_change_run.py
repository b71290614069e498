"""`tallygate advertise` against an API server: requests, conflicts, waiting, and errors."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.advertise import change_run
from tallygate.cli.app import root
from tests.cli.advertise.published_node import OURS, SEAT, Object, create_node
from tests.cli.usage.clusters import pod
from tests.kube.kubeconfig import write_kubeconfig
from tests.state.kubernetes.scripted_api_server import ReceivedRequest, Responder, respond, respond_json, server

_NO_PODS = respond_json(200, kind="List", metadata={"resourceVersion": "1"}, items=[])
_CHANGED = respond_json(409, kind="Status", code=409, message="the object has been modified")
_OTHER = "example.com/port"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_run, "_POLL_SECONDS", 0.0)


def _run(folder: Path, plays: Sequence[Responder], *arguments: str) -> tuple[Result, list[ReceivedRequest]]:
    with server(*plays) as played:
        options = ["--kubeconfig", str(write_kubeconfig(folder, played.server))]
        result = CliRunner().invoke(root, [*arguments, *options])
    return result, played.requests


def _send(node: Object) -> Responder:
    return respond(200, json.dumps(node).encode())


def _list(*items: Object) -> Responder:
    return respond_json(200, kind="List", metadata={"resourceVersion": "1"}, items=list(items))


def _read_patch(request: ReceivedRequest) -> tuple[str, dict[str, list[str]], Any]:
    url = urlsplit(request.path)
    assert request.method == "PATCH"
    return url.path, parse_qs(url.query), json.loads(request.body)


def _create_seats(amount: str, name: str = "n1", **others: Any) -> Object:
    return create_node(name, {SEAT: amount}, managers={OURS: [SEAT]}, **others)


def test_an_amount_is_applied_to_one_version_of_the_node(tmp_path: Path) -> None:
    """Keep what the manager has applied before."""
    before = create_node(capacity={SEAT: "1", _OTHER: "8"}, managers={OURS: [_OTHER], "kubelet": ["cpu"]})
    result, requests = _run(
        tmp_path, [_send(before), _NO_PODS, _send(_create_seats("4"))], "advertise", "n1", f"{SEAT}=4"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[1].split() == ["n1", SEAT, "1", "4", "4", "0", "changed"]
    path, query, body = _read_patch(requests[2])
    assert path == "/api/v1/nodes/n1/status"
    assert query == {"fieldManager": [OURS], "force": ["true"]}
    assert requests[2].headers["Content-Type"] == "application/apply-patch+yaml"
    assert body["metadata"] == {"name": "n1", "uid": "u-n1", "resourceVersion": "7"}
    assert body["status"] == {section: {SEAT: "4", _OTHER: "8"} for section in ("capacity", "allocatable")}
    assert "fieldSelector=spec.nodeName%3Dn1" in requests[1].path


def test_a_dry_run_stores_nothing(tmp_path: Path) -> None:
    plays = [_send(create_node()), _NO_PODS, _send(_create_seats("4"))]
    result, requests = _run(tmp_path, plays, "advertise", "n1", f"{SEAT}=4", "--dry-run=server", "-o", "json")
    assert _read_patch(requests[2])[1]["dryRun"] == ["All"]
    content = json.loads(result.stdout)
    assert (content["kind"], content["dryRun"], content["problems"]) == ("AdvertisedResourceList", True, [])
    assert content["items"] == [
        {
            "node": "n1",
            "resource": SEAT,
            "was": {"capacity": None, "allocatable": None},
            "is": {"capacity": "4", "allocatable": "4"},
            "used": 0,
            "state": "changed",
        }
    ]


def test_a_resource_is_removed(tmp_path: Path) -> None:
    plays = [_send(_create_seats("4")), _NO_PODS, _send(create_node())]
    result, requests = _run(tmp_path, plays, "advertise", "n1", f"{SEAT}-")
    assert result.exit_code == 0, result.stderr
    assert _read_patch(requests[2])[2]["status"] == {"capacity": {SEAT: None}, "allocatable": {SEAT: None}}
    assert requests[2].headers["Content-Type"] == "application/merge-patch+json"


def test_one_line_sets_an_amount_and_removes_another(tmp_path: Path) -> None:
    """Take each amount from the answer to its own request, since a dry run stores neither."""
    before = create_node(capacity={_OTHER: "8"}, managers={OURS: [_OTHER]})
    set_alone = create_node(capacity={SEAT: "4", _OTHER: "8"}, managers={OURS: [SEAT, _OTHER]}, version="8")
    plays = [_send(before), _NO_PODS, _send(set_alone), _send(create_node(version="9"))]
    result, requests = _run(tmp_path, plays, "advertise", "n1", f"{SEAT}=4", f"{_OTHER}-", "--dry-run=server")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split()[2:5] for line in result.stdout.splitlines()[1:]] == [["-", "4", "4"], ["8", "-", "-"]]
    applied, removed = _read_patch(requests[2])[2], _read_patch(requests[3])[2]
    assert applied["status"]["capacity"] == {SEAT: "4", _OTHER: "8"}
    assert removed["status"] == {"capacity": {_OTHER: None}, "allocatable": {_OTHER: None}}
    assert [patch["metadata"]["resourceVersion"] for patch in (applied, removed)] == ["7", "8"]


def test_a_removal_that_meets_a_changed_node_is_tried_again_alone(tmp_path: Path) -> None:
    set_alone = create_node(capacity={SEAT: "4", _OTHER: "8"}, managers={OURS: [SEAT, _OTHER]}, version="8")
    before = create_node(capacity={_OTHER: "8"}, managers={OURS: [_OTHER]})
    plays = [_send(before), _NO_PODS, _send(set_alone), _CHANGED, _send(set_alone), _send(_create_seats("4"))]
    result, requests = _run(tmp_path, plays, "advertise", "n1", f"{SEAT}=4", f"{_OTHER}-")
    assert (result.exit_code, result.stderr, len(requests)) == (0, "", 6)
    assert _read_patch(requests[5])[2]["status"]["capacity"] == {_OTHER: None}
    assert [line.split()[-1] for line in result.stdout.splitlines()[1:]] == ["changed", "changed"]


def test_what_is_so_already_is_not_written(tmp_path: Path) -> None:
    result, requests = _run(tmp_path, [_send(_create_seats("4")), _NO_PODS], "advertise", "n1", f"{SEAT}=4")
    assert (result.exit_code, len(requests)) == (0, 2)
    assert result.stdout.splitlines()[1].endswith("unchanged")


def test_one_refused_node_keeps_all_as_they_are(tmp_path: Path) -> None:
    nodes = _list(create_node("n1"), create_node("n2", {SEAT: "9"}, managers={"kubectl": [SEAT]}))
    result, requests = _run(tmp_path, [nodes, _NO_PODS, _NO_PODS], "advertise", "-l", "pool=sim", f"{SEAT}=4")
    assert result.exit_code == 1
    assert "labelSelector=pool%3Dsim" in requests[0].path
    assert [request.method for request in requests] == ["GET"] * 3
    assert [line.split()[-1] for line in result.stdout.splitlines()[1:]] == ["unchanged", "refused"]
    assert result.stderr.startswith(f"tallygate: node n2: {SEAT}: the amount 9 is managed by")


def test_many_nodes_need_one_list_of_pods(tmp_path: Path) -> None:
    nodes = [_create_seats("4", f"n{number}") for number in range(5)]
    using = pod("p", {SEAT: "2"}, spec={"nodeName": "n3"})
    result, requests = _run(tmp_path, [_list(*nodes), _list(using)], "advertise", "-l", "a=b", f"{SEAT}-")
    assert (result.exit_code, len(requests)) == (1, 2)
    assert "node n3: " in result.stderr
    assert "spec.nodeName" not in requests[1].path


def test_a_node_that_changes_meanwhile_is_checked_again(tmp_path: Path) -> None:
    late = create_node(capacity={SEAT: "8"}, managers={"kubelet": [SEAT]}, version="8")
    plays = [_send(create_node()), _NO_PODS, _CHANGED, _send(create_node(version="8")), _send(_create_seats("4"))]
    result, requests = _run(tmp_path, plays, "advertise", "n1", f"{SEAT}=4")
    assert result.exit_code == 0, result.stderr
    assert _read_patch(requests[4])[2]["metadata"]["resourceVersion"] == "8"
    result, _ = _run(tmp_path, [*plays[:3], _send(late)], "advertise", "n1", f"{SEAT}=4")
    assert result.exit_code == 1
    assert "a device plugin publishes 8 of it" in result.stderr
    assert result.stdout.splitlines()[1].endswith("failed")


def test_a_node_that_changes_all_the_time_is_given_up(tmp_path: Path) -> None:
    node = _send(create_node())
    plays = [node, _NO_PODS, *[_CHANGED, node] * 5]
    result, _ = _run(tmp_path, plays, "advertise", "n1", f"{SEAT}=4")
    assert result.exit_code == 1
    assert "node n1 is changed by others all the time" in result.stderr


def test_a_deleted_node_and_a_refused_one_stop_no_other(tmp_path: Path) -> None:
    nodes = _list(create_node("n1"), create_node("n2"), create_node("n3"))
    forbidden = respond_json(403, kind="Status", code=403, message="may not patch")
    missing = respond_json(404, kind="Status", code=404)
    plays = [nodes, *[_NO_PODS] * 3, missing, missing, forbidden, _send(_create_seats("4", "n3"))]
    result, _ = _run(tmp_path, plays, "advertise", "-l", "a=b", f"{SEAT}=4")
    assert result.exit_code == 1
    assert "node n1 was deleted meanwhile" in result.stderr
    assert "node n2 cannot be changed: the API server says 403: may not patch" in result.stderr
    assert [line.split()[-1] for line in result.stdout.splitlines()[1:]] == ["failed", "failed", "changed"]


def test_it_waits_until_the_amount_is_allocatable(tmp_path: Path) -> None:
    half = _send(_create_seats("4", allocatable={}))
    plays = [_send(create_node()), _NO_PODS, half, half, half, _send(_create_seats("4"))]
    result, requests = _run(tmp_path, plays, "advertise", "n1", f"{SEAT}=4")
    assert (result.exit_code, len(requests)) == (0, 6)


@pytest.mark.parametrize(
    ("allocatable", "sentence"),
    [({}, "is not allocatable, not 4"), ({SEAT: "3"}, 'is 3 allocatable, as "kubelet" wrote it, not 4')],
)
def test_an_amount_that_never_becomes_allocatable_is_a_failure(
    tmp_path: Path, allocatable: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_run, "_POLL_SECONDS", 1.0)
    followers = {"kubelet": [SEAT]} if allocatable else {}
    stored = _send(_create_seats("4", allocatable=allocatable, followers=followers))
    plays = [_send(create_node()), _NO_PODS, stored, stored]
    result, _ = _run(tmp_path, plays, "advertise", "n1", f"{SEAT}=4", "--timeout=1s")
    assert result.exit_code == 1
    assert f"node n1: {SEAT} {sentence}, after 1 s" in result.stderr
    assert result.stdout.splitlines()[1].endswith("failed")


@pytest.mark.parametrize(
    ("plays", "arguments", "sentence"),
    [
        ([respond_json(404, kind="Status", code=404)], ("n1",), "node n1 does not exist at http://"),
        ([_list()], ("-l", "a=b"), "has the labels a=b"),
        ([respond_json(403, kind="Status", code=403, message="no")], ("n1",), "nodes and their pods cannot be read"),
        ([respond_json(400, kind="Status", code=400, message="bad")], ("-l", "!!"), "400: bad"),
        ([_send(create_node()), respond_json(403, kind="Status", code=403, message="no")], ("n1",), "403: no"),
        ([respond_json(200, kind="Status")], ("n1",), "no node came"),
        ([], ("n1", "--timeout=soon"), "--timeout soon is not a period"),
    ],
)
def test_a_cluster_that_cannot_be_read_is_a_usage_error(
    tmp_path: Path, plays: list[Responder], arguments: tuple[str, ...], sentence: str
) -> None:
    node, options = ([], arguments) if arguments[0].startswith("-") else (arguments[:1], arguments[1:])
    result, _ = _run(tmp_path, plays, "advertise", *node, f"{SEAT}=4", *options)
    assert result.exit_code == 2
    assert sentence in result.stderr
