"""Caps in `tallygate check`: the used amounts of a snapshot, and the requests of manifests."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tallygate.admission.cap_index import CapIndex
from tallygate.cli.app import root
from tallygate.cli.sources import snapshot_file
from tallygate.documents.syntax_tree import Limits
from tallygate.state.kubernetes.cap_ledger import encode_ledger
from tallygate.state.ledger.ledger import Activation, Ledger
from tallygate.state.ports import LedgerKey
from tests.admission.case import parse_policies
from tests.cli.cap_checks import CAP, check, namespaces, pod, workload

NO_LIMIT_RANGES: dict[str, Any] = {"apiVersion": "v1", "kind": "LimitRangeList", "items": []}

_COUNTED_AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
TWO_PODS = [("Deployment", "replicas"), ("Job", "parallelism")]


def test_pods_that_fit_have_no_findings(tmp_path: Path) -> None:
    assert check(tmp_path, [pod("p", 3), pod("q", 2)], [*namespaces(a="yes"), pod("running", 3)]) == []


def test_a_pod_that_exceeds_the_cap_is_an_error_with_the_sum(tmp_path: Path) -> None:
    """Print the requested, used, reserved and free amounts."""
    result = check(tmp_path, [pod("p", 3), pod("q", 4)], [*namespaces(a="yes"), pod("running", 2)])
    assert [each[:2] for each in result] == [("error", "TG201")]
    assert "requested 4 nvidia.com/gpu" in result[0][2]
    assert "used 2, reserved 3, hard 8, free 3" in result[0][2]


def test_finished_pods_are_not_charged(tmp_path: Path) -> None:
    ended = [pod(phase, 8, status={"phase": phase}) for phase in ("Succeeded", "Failed")]
    assert check(tmp_path, [pod("p", 8)], [*namespaces(a="yes"), *ended]) == []


@pytest.mark.parametrize(("is_new", "codes"), [(True, ["TG201", "TG217"]), (False, ["TG201"])])
def test_a_denial_by_a_new_cap_says_from_when_on_it_enforces_its_limits(
    tmp_path: Path, *, is_new: bool, codes: list[str]
) -> None:
    """Store the ledger that the gate makes for a cap that was never active."""
    (cap,) = CapIndex(parse_policies(CAP % "false"), None).list_caps()
    ledger = Ledger(cap.hard, initializer="n", activation=Activation(is_new, 1_800_000_000))
    written = json.loads(encode_ledger(LedgerKey(cap.key, "a"), ledger, "tallygate-system", None, _COUNTED_AT).body)
    written["metadata"] |= {"uid": "l", "resourceVersion": "120"}
    found = check(tmp_path, [pod("p", 9), pod("q", 1)], [*namespaces(a="yes"), written])
    assert [each[1] for each in found] == codes
    if is_new:
        assert found[1][0] == "warning"
        assert "is new and counts existing pods first: enforced from about 08:00:00 UTC" in found[1][2]


@pytest.mark.parametrize(("shared", "findings"), [(False, 0), (True, 1)])
def test_shared_caps_add_namespaces_up(tmp_path: Path, *, shared: bool, findings: int) -> None:
    """Charge each namespace by itself unless the cap is shared."""
    snapshot_file = [*namespaces(a="yes", b="yes", c="no"), pod("running", 6, "b"), pod("other", 8, "c")]
    assert len(check(tmp_path, [pod("p", 3)], snapshot_file, shared=shared)) == findings


def test_a_stored_pod_is_not_charged_twice(tmp_path: Path) -> None:
    """Charge only its growth."""
    stored = [*namespaces(a="yes"), pod("p", 6)]
    assert check(tmp_path, [pod("p", 6)], stored) == []
    assert [each[:2] for each in check(tmp_path, [pod("p", 9)], stored)] == [("error", "TG201")]
    assert [each[:2] for each in check(tmp_path, [pod("q", 6)], stored)] == [("error", "TG201")]


@pytest.mark.parametrize(
    ("kind", "spec", "fits"),
    [
        pytest.param("Deployment", {"replicas": 4}, True, id="a deployment makes its replicas"),
        pytest.param("Deployment", {"replicas": 5}, False, id="all of them"),
        pytest.param("StatefulSet", {}, True, id="or one"),
        pytest.param("ReplicaSet", {"replicas": -1}, True, id="never fewer than none"),
        pytest.param("ReplicationController", {"replicas": 5}, False, id="a replication controller likewise"),
        pytest.param(
            "Job", {"parallelism": 9, "completions": 4}, True, id="a job runs no more than it has to complete"
        ),
        pytest.param("Job", {"parallelism": 5}, False, id="nor more than it may at a time"),
        pytest.param("Job", {"completions": 9}, True, id="one pod by default"),
        pytest.param("CronJob", {"parallelism": 5}, False, id="a cron job is one job"),
        pytest.param("PodTemplate", {}, True, id="a pod template makes none"),
    ],
)
def test_workloads_are_charged_for_all_their_pods(
    tmp_path: Path, kind: str, spec: dict[str, int], *, fits: bool
) -> None:
    """Charge two GPUs for each pod, and warn, since the workload itself would be stored."""
    result = check(tmp_path, [workload(kind, 2, {"app": "w"}, **spec)], namespaces(a="yes"))
    assert [each[:2] for each in result] == ([] if fits else [("warning", "TG204")])


def test_a_workloads_own_pods_are_not_charged_twice(tmp_path: Path) -> None:
    """Skip the pods of the snapshot that have all labels of its template."""
    stored = [pod(f"w-{i}", 2, labels={"app": "w", "pod-template-hash": "x"}) for i in range(4)]
    deployment = workload("Deployment", 2, {"app": "w"}, replicas=4)
    assert check(tmp_path, [deployment], [*namespaces(a="yes"), *stored]) == []
    other = workload("Deployment", 2, {"app": "w", "tier": "b"}, replicas=1)
    assert [each[1] for each in check(tmp_path, [other], [*namespaces(a="yes"), *stored])] == ["TG205"]


def test_workloads_of_one_name_are_charged_each(tmp_path: Path) -> None:
    """Charge the pods of each of two kinds, whose objects may have one name."""
    deployment, job = (workload(kind, 2, {"app": kind}, **{number: 2}) for kind, number in TWO_PODS)
    assert check(tmp_path, [deployment, job], namespaces(a="yes")) == []
    result = check(tmp_path, [deployment, job, pod("w", 1)], namespaces(a="yes"))
    assert [each[:2] for each in result] == [("error", "TG201")]
    assert "reserved 8, hard 8" in result[0][2]


def test_a_workload_that_a_cap_denies_is_an_error(tmp_path: Path) -> None:
    """Report an error only for a permanent excess."""
    deny = [*namespaces(a="yes"), pod("running", 2)]
    big, late = (workload("Deployment", 2, {"app": "w"}, replicas=count) for count in (5, 4))
    assert [each[:2] for each in check(tmp_path, [big], deny, cap=CAP + "  workloads: deny\n")] == [("error", "TG204")]
    assert [each[:2] for each in check(tmp_path, [late], deny, cap=CAP + "  workloads: deny\n")] == [
        ("warning", "TG205")
    ]


def test_the_pod_count_of_a_daemonset_is_not_guessed(tmp_path: Path) -> None:
    """Report a note instead."""
    result = check(tmp_path, [workload("DaemonSet", 2, {"app": "w"})], namespaces(a="yes"))
    assert [each[:2] for each in result] == [("note", "TG408")]


def test_unknown_labels_are_not_guessed(tmp_path: Path) -> None:
    """Report them once for each cap."""
    result = check(tmp_path, [pod("p", 9), pod("q", 9)], [pod("running", 1)])
    assert [each[:2] for each in result] == [("note", "TG408")]
    assert "cap gpus was not evaluated" in result[0][2]


def test_a_missing_limit_is_an_error_if_the_cap_counts_limits(tmp_path: Path) -> None:
    unlimited = pod("p", 1)
    unlimited["spec"]["containers"][0]["resources"] = {}
    result = check(tmp_path, [unlimited], [*namespaces(a="yes"), NO_LIMIT_RANGES])
    assert [each[:2] for each in result] == [("error", "TG203")]
    assert "limits.memory" in result[0][2]


@pytest.mark.parametrize("snapshot", [None, namespaces(a="yes")], ids=["without a snapshot", "in another snapshot"])
@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_a_missing_limit_is_a_note_where_limit_ranges_are_unknown(
    tmp_path: Path, kind: str, snapshot: list[dict[str, Any]] | None
) -> None:
    unlimited = pod("p", 1) if kind == "Pod" else workload("Deployment", 1, {"app": "w"}, replicas=2)
    spec = unlimited["spec"] if kind == "Pod" else unlimited["spec"]["template"]["spec"]
    spec["containers"][0]["resources"] = {}
    ((level, code, message),) = check(tmp_path, [unlimited], snapshot, cap=EVERYWHERE)
    assert (level, code) == ("note", "TG408")
    assert "whether a LimitRange gives it to them is not known here" in message


def test_a_denied_pod_is_not_charged(tmp_path: Path) -> None:
    """Charge neither pods that a cap denies nor pods that a rule denies."""
    half = pod("half", 1)
    half["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "500m"
    result = check(tmp_path, [half, pod("big", 9), pod("p", 8)], namespaces(a="yes"))
    assert "TG201" in [each[1] for each in result]
    assert not [each for each in result if "requested 8" in each[2]]


@pytest.mark.parametrize("form", ["yaml", "documents", "typed lists"])
def test_a_snapshot_may_have_other_formats(tmp_path: Path, form: str) -> None:
    """Read YAML, several documents, and lists of one kind."""
    items = [*namespaces(a="yes"), pod("running", 6)]
    bare = [{key: value for key, value in item.items() if key not in {"kind", "apiVersion"}} for item in items]
    text = {
        "yaml": yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": items}),
        "documents": yaml.safe_dump_all(items),
        "typed lists": yaml.safe_dump_all(
            [{"kind": "NamespaceList", "items": bare[:1]}, {"kind": "PodList", "items": bare[1:]}]
        ),
    }[form]
    assert [each[1] for each in check(tmp_path, [pod("p", 3)], text)] == ["TG201"]


EVERYWHERE = CAP.replace('{selector: {matchLabels: {gpu: "yes"}}}', "{include: [a]}")


def test_a_check_without_a_snapshot_reports_that_existing_pods_are_unknown(tmp_path: Path) -> None:
    """Report the cap whose namespaces need labels, too."""
    assert [each[:2] for each in check(tmp_path, [pod("p", 9)], None)] == [("note", "TG408")]
    result = CliRunner().invoke(root, ["check", "--policies", str(tmp_path / "cap.yaml"), str(tmp_path / "all.json")])
    assert result.exit_code == 0
    assert "no existing pods counted for caps: give the state of the cluster with --snapshot" in result.stderr


@pytest.mark.parametrize(
    ("manifests", "findings"),
    [
        pytest.param([pod("p", 8)], [], id="a pod that fits if nothing runs"),
        pytest.param([pod("p", 9)], [("error", "TG201")], id="a pod above the hard limit"),
        pytest.param([pod("p", 5), pod("q", 4)], [("error", "TG201")], id="two pods above it together"),
        pytest.param(
            [workload("Deployment", 2, {"app": "w"}, replicas=5)], [("warning", "TG204")], id="a workload above it"
        ),
        pytest.param(
            [workload("Deployment", 9, {"app": "w"})], [("error", "TG204")], id="a workload with pods that never fit"
        ),
        pytest.param(
            [*namespaces(a="yes"), workload("StatefulSet", 2, {"app": "w"}, replicas=3), pod("p", 3)],
            [("error", "TG201")],
            id="a pod after a workload",
        ),
    ],
)
def test_what_no_snapshot_can_change_is_reported_without_one(
    tmp_path: Path, manifests: list[dict[str, Any]], findings: list[tuple[str, str]]
) -> None:
    assert [each[:2] for each in check(tmp_path, manifests, None, cap=EVERYWHERE)] == findings


@pytest.mark.parametrize("limit", ["0", None], ids=["a limit of 0", "no limit"])
def test_a_workload_none_of_whose_pods_is_ever_accepted_is_an_error(tmp_path: Path, limit: str | None) -> None:
    snapshot = None if limit else [*namespaces(a="yes"), NO_LIMIT_RANGES]
    unlimited = workload("Deployment", 1, {"app": "w"}, replicas=2)
    unlimited["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": limit} if limit else {}}
    assert [each[:2] for each in check(tmp_path, [unlimited], snapshot, cap=EVERYWHERE)] == [("error", "TG203")]
    never = workload("DaemonSet", 9, {"app": "w"})
    assert [each[:2] for each in check(tmp_path, [never], snapshot, cap=EVERYWHERE)] == [("error", "TG204")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(None, "cannot be read: No such file", id="not there"),
        pytest.param("[", ":2:1: this is not YAML", id="neither JSON nor YAML"),
        pytest.param('{"items": 3}', "no snapshot: Expected `array | null`", id="another shape"),
        pytest.param('{"kind": "List", "items": [{"kind": "Secret"}]}', "contains neither pods nor", id="other things"),
        pytest.param(
            '{"kind": "List", "items": [{"kind": "Pod", "spec": []}]}',
            "items[0]: Pod without a name: Expected `object | null`",
            id="no pod",
        ),
        pytest.param("\udcff", "no snapshot: 'utf-8' codec", id="no text"),
        pytest.param('{"a":' * 100_000, "no snapshot", id="endless nesting"),
    ],
)
def test_an_invalid_snapshot_is_a_usage_error(tmp_path: Path, text: str | None, sentence: str) -> None:
    path = tmp_path / "snapshot"
    if text is not None:
        path.write_text(text, errors="surrogateescape")
    (tmp_path / "pod.json").write_text(json.dumps(pod("p", 1)))
    result = CliRunner().invoke(root, ["check", "--snapshot", str(path), str(tmp_path / "pod.json")])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"tallygate: {path}")
    assert sentence in result.stderr


def test_a_snapshot_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the size before the read."""
    monkeypatch.setattr(snapshot_file, "SNAPSHOT_LIMITS", Limits(size=1024 * 1024))
    with (tmp_path / "snapshot").open("wb") as sparse:
        sparse.truncate(1024 * 1024 + 1)
    with pytest.raises(
        snapshot_file.SnapshotError, match="snapshot: larger than 1 MiB; write it with `tallygate snapshot`"
    ):
        snapshot_file.read_snapshot(tmp_path / "snapshot")


def test_a_cron_job_without_a_template_is_not_charged(tmp_path: Path) -> None:
    empty = workload("CronJob", 9, {"app": "w"})
    empty["spec"] = {"jobTemplate": {}}
    assert check(tmp_path, [empty], namespaces(a="yes")) == []


def test_an_invalid_quantity_in_a_snapshot_is_reported(tmp_path: Path) -> None:
    """Name the pod."""
    (tmp_path / "cap.yaml").write_text(CAP % "false")
    broken = pod("broken", 1)
    broken["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "two"
    (tmp_path / "snapshot").write_text(json.dumps({"kind": "List", "items": [*namespaces(a="yes"), broken]}))
    (tmp_path / "pod.json").write_text(json.dumps(pod("p", 1)))
    arguments = ["check", "--policies", str(tmp_path / "cap.yaml"), "--snapshot", str(tmp_path / "snapshot")]
    result = CliRunner().invoke(root, [*arguments, str(tmp_path / "pod.json")])
    assert result.exit_code == 2
    assert "the snapshot's pod a/broken has a quantity" in result.stderr


_WHOLE = CAP + "  admit: whole\n"


def _job(pods: int, gpus: int = 1, **more: Any) -> dict[str, Any]:
    return workload("Job", gpus, {"job": "w"}, parallelism=pods, completions=pods) | more


def test_a_job_that_never_fits_as_a_whole_is_an_error(tmp_path: Path) -> None:
    (found,) = check(tmp_path, [*namespaces(a="yes"), _job(9)], None, cap=_WHOLE.replace(", limits.memory: 8Gi", ""))
    assert found[:2] == ("error", "TG215")
    assert found[2] == (
        "cap gpus of this namespace admits a Job as a whole or not at all: its 9 pods request 9 nvidia.com/gpu, used "
        "0, reserved 0, hard 8, free 8. It needs 9 at a time, which the cap never allows: start fewer pods"
    )


def test_a_job_that_does_not_fit_beside_the_pods_of_a_snapshot_is_an_error_and_a_deployment_a_warning(
    tmp_path: Path,
) -> None:
    stored = [*namespaces(a="yes"), pod("running", 6)]
    found = check(tmp_path, [_job(3)], stored, cap=_WHOLE)
    assert [each[:2] for each in found] == [("error", "TG215")]
    assert "its 3 pods request 3 nvidia.com/gpu, used 6, reserved 0, hard 8, free 2" in found[0][2]
    found = check(tmp_path, [workload("Deployment", 1, {"app": "w"}, replicas=3)], stored, cap=_WHOLE)
    assert [each[:2] for each in found] == [("warning", "TG205")]


def test_no_stored_pod_belongs_to_a_job_whose_template_has_no_labels(tmp_path: Path) -> None:
    stored = [*namespaces(a="yes"), pod("running", 6)]
    job = workload("Job", 1, {}, parallelism=3, completions=3)
    found = check(tmp_path, [job], stored, cap=CAP.replace(", limits.memory: 8Gi", ""))
    assert [each[:2] for each in found] == [("warning", "TG205")]


def test_a_job_that_a_forecast_denies_already_is_not_charged_as_a_whole_too(tmp_path: Path) -> None:
    """Let another cap only warn: without an error of the forecast the charge as a whole decides."""
    others = [
        f"---\napiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\nmetadata: {{name: {name}}}\n"
        f"spec: {{namespaces: {{include: ['*']}}, hard: {{pods: 5}}, workloads: {workloads}}}\n"
        for name, workloads in (("warns", "warn"), ("denies", "deny"))
    ]
    whole, manifests = _WHOLE.replace(", limits.memory: 8Gi", ""), [*namespaces(a="yes"), _job(9)]
    found = check(tmp_path, manifests, None, cap=whole + others[0])
    assert [each[:2] for each in found] == [("error", "TG215"), ("warning", "TG204")]
    found = check(tmp_path, manifests, None, cap=whole + "".join(others))
    assert [each[:2] for each in found] == [("error", "TG204"), ("warning", "TG204")]


def test_jobs_of_one_run_share_the_room_of_a_cap_that_admits_them_as_a_whole(tmp_path: Path) -> None:
    second = _job(5)
    second["metadata"] = {"name": "second", "namespace": "a"}
    found = check(
        tmp_path, [*namespaces(a="yes"), _job(4), second], None, cap=_WHOLE.replace("memory: 8Gi", "memory: 80Gi")
    )
    assert [(level, code) for level, code, _ in found] == [("error", "TG215")]
    assert "reserved 4, hard 8, free 4" in found[0][2]


def test_a_job_of_another_workload_is_not_charged_beside_it(tmp_path: Path) -> None:
    owned = _job(9)
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "n", "uid": "u", "controller": True}
    owned["metadata"] = {"name": "w", "namespace": "a", "ownerReferences": [owner]}
    assert check(tmp_path, [*namespaces(a="yes"), owned], None, cap=_WHOLE) == []


def test_pods_above_what_is_not_guaranteed_to_others_never_fit(tmp_path: Path) -> None:
    cap = CAP.replace("hard:", "guarantee: [{namespaces: [b], amounts: {nvidia.com/gpu: 3}}]\n  hard:")
    members = namespaces(a="yes", b="yes")
    found = check(tmp_path, [pod("p", 6)], members, cap=cap, shared=True)
    assert found[0][2].endswith(
        "hard 8, free 8, of which 3 are guaranteed to namespace b. This namespace never has more than 5: the rest is "
        "guaranteed to namespace b. Request 5 or less"
    )
    replicas = workload("Deployment", 1, {"app": "w"}, replicas=6)
    (warned,) = check(tmp_path, [replicas], members, cap=cap, shared=True)
    assert "hard 8, of which 3 are guaranteed to namespace b: 5 of them can run at a time" in warned[2]
    whole = (_WHOLE % "true").replace("hard:", "guarantee: [{namespaces: [b], amounts: {nvidia.com/gpu: 3}}]\n  hard:")
    (denied,) = check(tmp_path, [_job(6)], members, cap=whole.replace("true", "%s", 1), shared=True)
    assert denied[2].endswith(
        "which the cap never allows. This namespace never has more than 5: the rest is guaranteed to namespace b. "
        "Start fewer pods"
    )
