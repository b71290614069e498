"""`tallygate predict` and `headroom` at an API server: what they list, and what they do where they may not."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.usage.clusters import GPU, Object, namespace, pod
from tests.cli.usage.test_clusters import NO_LEDGERS, NODE, page, run
from tests.state.kubernetes.server import Play, says
from webhook.cli.app import root
from webhook.cli.sources import snapshot_items

_PLACES = [reading.name for reading in (*snapshot_items.VOLUME_CODECS, *snapshot_items.SCHEDULING_CODECS)]
_CLAIM: Object = {
    "metadata": {
        "name": "data",
        "namespace": "team-a",
        "uid": "claim",
        "resourceVersion": "4",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    },
    "spec": {"volumeName": "gone", "storageClassName": "fast"},
    "status": {"phase": "Bound"},
}
_GOLD: Object = {"metadata": {"name": "gold", "uid": "gold", "resourceVersion": "5"}, "value": 7}
_NODE: Object = NODE | {"status": {"allocatable": {GPU: "8", "pods": "110"}}}
_FORBIDDEN = says(403, kind="Status", message="may not", code=403)


def _others(**found: Play) -> list[Play]:
    """What is listed besides; whatever is not said here the API server does not know."""
    return [found.get(name, NO_LEDGERS) for name in _PLACES]


def _plays(pods: Sequence[Object], **found: Play) -> list[Play]:
    return [page([namespace("team-a")]), page([_NODE]), *_others(**found), page(pods, revision=200)]


def _waiting(**spec: object) -> Object:
    made = pod("waits", {GPU: "3"}, spec=spec, status={"phase": "Pending"})
    del made["spec"]["nodeName"]
    return made


def _data(result: Result) -> Object:
    assert result.exit_code in (0, 1), result.output
    return dict(json.loads(result.stdout))


_ASKED = ("predict", "pod/waits", "--namespace", "team-a", "-o", "json")


def test_everything_is_listed_once_and_pods_last(tmp_path: Path) -> None:
    result, asked = run(tmp_path, _plays([_waiting(), pod("holds", {GPU: "6"})]), *_ASKED)
    assert result.exit_code == 1
    assert result.stderr == ""
    resources = [path.split("?")[0].rpartition("/")[2] for path in asked]
    assert resources == ["namespaces", "nodes", *_PLACES, "pods"]
    (found,) = _data(result)["predictions"]
    assert [each["name"] for each in found["closestNodes"][0]["consumers"]] == ["holds"]


def test_a_snapshot_of_it_gives_the_same_answer(tmp_path: Path) -> None:
    """With claims and priorities, which decide here."""
    waits = _waiting(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}], priorityClassName="gold")
    pods = [waits, pod("holds", {GPU: "6"})]
    found = {"persistentvolumeclaims": page([_CLAIM]), "priorityclasses": page([_GOLD])}
    live, _ = run(tmp_path, _plays(pods, **found), *_ASKED)
    (prediction,) = _data(live)["predictions"]
    assert prediction["message"] == '0/1 nodes are available: persistentvolume "gone" not found. not found'
    path = tmp_path / "now.json"
    taken, _ = run(tmp_path, [NO_LEDGERS, *_plays(pods, **found)], "snapshot", "-o", str(path))
    assert (taken.exit_code, taken.stderr) == (0, "")
    stored = CliRunner().invoke(root, [*_ASKED, "--snapshot", str(path)])
    assert (stored.exit_code, stored.stdout) == (live.exit_code, live.stdout)


def test_what_may_not_be_listed_is_told_and_not_guessed(tmp_path: Path) -> None:
    waits = _waiting(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    closed = {"persistentvolumes": _FORBIDDEN, "csinodes": _FORBIDDEN, "persistentvolumeclaims": page([_CLAIM])}
    result, _ = run(tmp_path, _plays([waits], **closed), *_ASKED)
    (found,) = _data(result)["predictions"]
    assert found["verdict"] == "unknown"
    assert found["unknown"] == ["volumes: claims, volumes and storage classes of this cluster are not known"]
    assert result.stderr.count("may not be listed: the API server says 403: may not") == 2
    taken, _ = run(tmp_path, [NO_LEDGERS, *_plays([waits], **closed)], "snapshot")
    assert taken.stderr.count("are left out: the API server says 403: may not") == 2
    assert "so is all else about volumes" in taken.stderr
    path = tmp_path / "now.json"
    path.write_text(taken.stdout)
    stored = CliRunner().invoke(root, [*_ASKED, "--snapshot", str(path)])
    assert (stored.exit_code, stored.stdout) == (result.exit_code, result.stdout)


def test_a_cluster_without_any_claim_is_known_to_have_none(tmp_path: Path) -> None:
    """Which is something else than not knowing."""
    waits = _waiting(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    empty = {"persistentvolumeclaims": page([]), "persistentvolumes": page([])}
    result, _ = run(tmp_path, _plays([waits], **empty), *_ASKED)
    (found,) = _data(result)["predictions"]
    assert found["message"] == '0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
    assert found["unknown"] == []
    path = tmp_path / "now.json"
    run(tmp_path, [NO_LEDGERS, *_plays([waits], **empty)], "snapshot", "-o", str(path))
    assert CliRunner().invoke(root, [*_ASKED, "--snapshot", str(path)]).stdout == result.stdout


@pytest.mark.parametrize(
    ("pods", "found", "sentence"),
    [
        ([pod("holds", {GPU: "many"})], {}, "has stored an invalid quantity"),
        ([{"metadata": {"name": "nobody"}}], {}, "a page that is no list of pods"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    tmp_path: Path, pods: list[Object], found: dict[str, Play], sentence: str
) -> None:
    """With exit code 2."""
    result, _ = run(tmp_path, _plays(pods, **found), *_ASKED)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_api_server_that_fails_at_volumes_is_one_sentence(tmp_path: Path) -> None:
    """It is not taken for one that has none."""
    plays = [page([namespace("team-a")]), page([_NODE]), says(500)]
    result, _ = run(tmp_path, plays, *_ASKED)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("tallygate: persistentvolumeclaims cannot be listed at http://127.0.0.1")


def test_without_the_right_to_nodes_there_is_no_verdict(tmp_path: Path) -> None:
    result, _ = run(tmp_path, [page([namespace("team-a")]), _FORBIDDEN], *_ASKED)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("tallygate: nodes cannot be listed at http://127.0.0.1")


def test_a_pod_from_the_cluster_that_has_its_node_is_passed_over(tmp_path: Path) -> None:
    """Whoever pipes all of a namespace into it means those that wait."""
    both = {"apiVersion": "v1", "kind": "List", "items": [pod("holds", {GPU: "6"}), _waiting()]}
    manifest = tmp_path / "pods.json"
    manifest.write_text(json.dumps(both))
    result, _ = run(tmp_path, _plays([]), "predict", "-f", str(manifest), "-o", "json")
    assert [each["object"]["name"] for each in _data(result)["predictions"]] == ["waits"]
    assert result.stderr == "tallygate: Pod team-a/holds is on node n1 already, and is skipped\n"


def test_a_pod_that_is_being_deleted_waits_no_more(tmp_path: Path) -> None:
    """As the scheduler passes it over."""
    going = _waiting()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    result, _ = run(tmp_path, _plays([going]), *_ASKED)
    assert result.exit_code == 2
    assert "no pod of that name in namespace team-a is pending; no pod is pending" in result.stderr


def test_there_is_room_for_others_like_a_pod_that_runs(tmp_path: Path) -> None:
    """Wherever that one is."""
    manifest = tmp_path / "pod.json"
    manifest.write_text(json.dumps(pod("holds", {GPU: "1"}, spec={"nodeName": "elsewhere"})))
    result, _ = run(tmp_path, _plays([pod("holds", {GPU: "1"})]), "headroom", "-f", str(manifest), "-o", "json")
    (found,) = _data(result)["headroom"]
    assert found["copies"] == 7


def test_room_is_counted_in_a_cluster(tmp_path: Path) -> None:
    manifest = tmp_path / "pod.json"
    manifest.write_text(json.dumps(_waiting()))
    result, _ = run(tmp_path, _plays([pod("holds", {GPU: "1"})]), "headroom", "-f", str(manifest), "-o", "json")
    (found,) = _data(result)["headroom"]
    assert (found["copies"], found["message"]) == (2, f"0/1 nodes are available: 1 Insufficient {GPU}.")
