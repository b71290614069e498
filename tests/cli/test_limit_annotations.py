"""Limits by annotations of namespaces in commands: snapshots keep them, and `check` and `audit` apply them."""

import json
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tallygate.cli.sources import snapshot_items
from tallygate.kube.resource_codec import Changed
from tallygate.objects.core import Namespace
from tallygate.objects.meta import ObjectMeta

GPU = "nvidia.com/gpu"
CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec:
  namespaces: {include: ["team-*"]}
  hard: {nvidia.com/gpu: 4}
  overrideAnnotation: {setBy: {groups: [admins]}, most: {nvidia.com/gpu: 8}}
"""
TEXTS = {
    "team-a": f"{GPU}=6 until=2999-12-04",
    "team-b": f"{GPU}=6 until=2020-12-04",
    "team-c": f"{GPU}=9",
    "team-d": f"{GPU}=1",
}


def _pod(namespace: str, name: str, gpus: int) -> dict[str, Any]:
    amounts = {GPU: str(gpus)}
    metadata = {"name": name, "namespace": namespace, "uid": f"u-{namespace}-{name}", "resourceVersion": "1"}
    spec = {"containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _namespace(name: str) -> dict[str, Any]:
    annotations = {"limits.tallygate.dev/gpus": TEXTS[name]}
    metadata = {"name": name, "uid": f"u-{name}", "resourceVersion": "1", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _run(folder: Path, command: list[str], manifests: list[dict[str, Any]], stored: list[dict[str, Any]]) -> Result:
    (folder / "cap.yaml").write_text(CAP)
    items = [_namespace(name) for name in TEXTS] + stored
    (folder / "now.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    options = ["--policies", str(folder / "cap.yaml"), "--snapshot", str(folder / "now.json")]
    files = []
    for number, manifest in enumerate(manifests):
        files.append(str(folder / f"{number}.json"))
        Path(files[-1]).write_text(json.dumps(manifest))
    return CliRunner().invoke(root, [*command, *options, *files])


def test_check_applies_the_annotations_of_the_snapshot(tmp_path: Path) -> None:
    manifests = [_pod(name, "train", 5) for name in TEXTS]
    result = _run(tmp_path, ["check", "-o", "json"], manifests, [])
    found = {each["object"]["namespace"]: each["message"] for each in json.loads(result.stdout)["findings"]}
    assert found.keys() == {"team-b", "team-c", "team-d"}
    assert "hard 4 (was 6 until 2020-12-05T00:00Z)" in found["team-b"]
    assert "hard 4, " in found["team-c"]
    assert "hard 1, " in found["team-d"]


def _annotate(namespace: str, **texts: str) -> dict[str, Any]:
    annotations = {f"limits.tallygate.dev/{name}": text for name, text in texts.items()} | {"owner": "ann"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "annotations": annotations}}


def _check(folder: Path, *manifests: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return code, level and message of each finding."""
    result = _run(folder, ["check", "-o", "json"], list(manifests), [])
    findings = json.loads(result.stdout)["findings"]
    return [(each["code"], each["level"], each["message"]) for each in findings]


def test_check_applies_the_annotations_of_namespaces_among_the_manifests(tmp_path: Path) -> None:
    """Count them for all manifests, also those before the namespace, and over those of the snapshot."""
    pods = [_pod("team-d", "train", 5), _pod("team-new", "train", 8)]
    note = ("TG216", "note", "it is counted, and the gate accepts it from the groups admins only")
    assert _check(tmp_path, *pods, _annotate("team-d", gpus=f"{GPU}=5"), _annotate("team-new", gpus=f"{GPU}=8")) == [
        note,
        note,
    ]


def test_an_annotation_that_a_manifest_omits_stays(tmp_path: Path) -> None:
    found = _check(tmp_path, {**_annotate("team-d"), "metadata": {"name": "team-d"}}, _pod("team-d", "train", 2))
    (only,) = found
    assert "hard 1, " in only[2]


def test_check_reports_annotations_that_set_no_limit_where_they_are_written(tmp_path: Path) -> None:
    manifest = _annotate("team-new", gpus=f"{GPU}=9", gpu=f"{GPU}=8")
    result = _run(tmp_path, ["check", "-o", "json"], [manifest, _pod("team-new", "train", 5)], [])
    assert result.exit_code == 1
    findings = {each["field"]: each for each in json.loads(result.stdout)["findings"]}
    unread = findings["metadata.annotations[limits.tallygate.dev/gpu]"]
    assert (unread["code"], unread["level"]) == ("TG216", "error")
    assert unread["message"] == 'no cap of the name gpu reads it; did you mean "gpus"?; remove it'
    invalid = findings["metadata.annotations[limits.tallygate.dev/gpus]"]
    assert invalid["message"] == f"{GPU}: 9 is more than an annotation may give; write 8 or less"
    assert invalid["column"] > 1
    assert any("hard 4, " in each["message"] for each in findings.values())


def test_a_namespace_without_limits_is_an_object_without_requests(tmp_path: Path) -> None:
    result = _run(tmp_path, ["check"], [_annotate("team-new")], [])
    assert (result.exit_code, result.stdout) == (0, "")


def test_audit_applies_them_and_reports_those_that_set_no_limit(tmp_path: Path) -> None:
    result = _run(tmp_path, ["audit"], [], [_pod(name, "train", 5) for name in TEXTS])
    exceeded = [line.split()[2] for line in result.stdout.splitlines() if "exceeded" in line]
    assert exceeded == ["team-b", "team-c", "team-d"], result.output
    assert "the annotation limits.tallygate.dev/gpus of namespace team-c sets no limit: " in result.output
    assert result.output.count("sets no limit") == 1


def test_a_snapshot_keeps_them_and_no_other_annotation_of_a_namespace() -> None:
    annotations = {"limits.tallygate.dev/gpus": "nvidia.com/gpu=6", "owner": "ann"}
    meta = ObjectMeta(name="team-a", uid="u", resource_version="1", annotations=annotations)
    body = msgspec.json.encode({"type": "ADDED", "object": Namespace(meta)})
    event = snapshot_items.NAMESPACE_CODEC.decode_event(body)
    assert isinstance(event, Changed)
    item = event.item
    assert json.loads(item.content)["metadata"]["annotations"] == {"limits.tallygate.dev/gpus": "nvidia.com/gpu=6"}
