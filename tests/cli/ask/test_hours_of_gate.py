"""`usage --hours` without snapshots: the gate's server of asks answers, about all namespaces or one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tallygate.answers.usage_records import AskHours
from tests.answers.device_histories import BEGIN, ClaimLife, PodLife, Watcher
from tests.cli.ask.gates import CONFIG_MAP, send_json, send_status
from tests.cli.ask.test_without_rights import run, run_cluster
from tests.kube.raw_server import Part

END = BEGIN + 7200
POD = PodLife("own", "team-a", BEGIN, BEGIN, END, END, amount=2, owner="train", labels=(("team", "maps"),))
CLAIM = ClaimLife("mine", "team-b", BEGIN, ((BEGIN, END),), END, device_class="nic")


def create_hours(by: str = "namespace", namespace: str | None = None) -> dict[str, Any]:
    """Return an answer of a server that has seen a pod and a claim for an hour."""
    watcher = Watcher([POD, CLAIM], BEGIN)
    watcher.watch_until(BEGIN + 3600)
    return watcher.answer(by, namespace)


def test_the_gate_answers_about_all_namespaces(tmp_path: Path) -> None:
    with run_cluster(tmp_path, send_json(create_hours())) as (server, gate):
        result = run(server, tmp_path, "usage", "--hours")
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [
            "NAMESPACE  RESOURCE                                 HOURS  UP TO  PODS  CLAIMS",
            "team-b     nic.deviceclass.resource.k8s.io/devices  1.00   1.00   0     1",
            "team-a     nvidia.com/gpu                           2.00   2.00   1     0",
        ],
    )
    since = "note: since 2023-11-14T22:13:20Z, when this server began to watch: nothing before is counted\n"
    assert result.stderr == since
    assert gate.requests[0].startswith(b"GET /v1/hours?by=namespace HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("by", "heading", "cell"),
    [
        pytest.param("workload", "WORKLOAD", "Job train", id="workload"),
        pytest.param("label=team", "LABEL", "maps", id="label"),
    ],
)
def test_groups_are_those_that_are_asked_for(tmp_path: Path, by: str, heading: str, cell: str) -> None:
    with run_cluster(tmp_path, send_json(create_hours(by, "team-a"))) as (server, gate):
        result = run(server, tmp_path, "usage", "--hours", "--by", by, "-n", "team-a")
    assert result.exit_code == 0, result.stderr
    header, line = result.stdout.splitlines()
    assert (heading in header, cell in line) == (True, True)
    assert b"namespace=team-a" in gate.requests[0]


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_hours_of_the_gate_are_also_data(tmp_path: Path, output: str, read: Any) -> None:
    with run_cluster(tmp_path, send_json(create_hours("workload", "team-a"))) as (server, _):
        result = run(server, tmp_path, "usage", "--hours", "--by", "workload", "-n", "team-a", "-o", output)
    content = read(result.stdout)
    assert content["kind"] == "UsageHoursList"
    assert content["items"] == [
        {
            "namespace": "team-a",
            "workload": "Job train",
            "resource": "nvidia.com/gpu",
            "hours": "2.00",
            "hoursAtMost": "2.00",
            "seconds": 7200,
            "secondsAtMost": 7200,
            "pods": 1,
            "claims": 0,
        }
    ]
    period = content["from"], content["until"], content["snapshots"], content["longestGapSeconds"]
    assert period == ("2023-11-14T22:13:20Z", "2023-11-14T23:13:20Z", None, 0)


def test_who_may_not_list_all_pods_gets_his_namespace(tmp_path: Path) -> None:
    refused = send_status(403, "ann may not list pods of all namespaces")
    with run_cluster(tmp_path, refused, send_json(create_hours())) as (server, gate):
        result = run(server, tmp_path, "usage", "--hours")
    assert "tallygate: you may not list all pods: this is namespace team-a" in result.stderr
    assert [request.split(b" ")[1] for request in gate.requests] == [
        b"/v1/hours?by=namespace",
        b"/v1/hours?by=namespace&namespace=team-a",
    ]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        pytest.param(send_status(403, "no"), "says 403: no", id="no rights"),
        pytest.param(send_status(404, "no such path"), "an older server of asks has no hours", id="an older server"),
        pytest.param(send_json({}), "sends no AskHours that this version reads", id="no answer"),
        pytest.param(send_json({"kind": "AskUsage"}), "sends no AskHours that this version reads", id="another answer"),
    ],
)
def test_hours_without_an_answer_are_a_usage_error(tmp_path: Path, parts: Sequence[Part], message: str) -> None:
    """Expect the way by snapshots in each message."""
    with run_cluster(tmp_path, parts) as (server, _):
        result = run(server, tmp_path, "usage", "--hours", "-n", "team-b")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "name their folder with --snapshots" in result.stderr


def test_a_cluster_without_a_server_of_asks_names_both_ways(tmp_path: Path) -> None:
    with run_cluster(tmp_path, send_json({})) as (server, gate):
        server.objects[CONFIG_MAP] = 404, {"kind": "Status", "message": "not found"}
        result = run(server, tmp_path, "usage", "--hours")
    assert (result.exit_code, gate.requests) == (2, [])
    assert "no server of asks is installed there. An admin can add it (docs/operate/ask.md)" in result.stderr
    assert "name their folder with --snapshots" in result.stderr


def test_the_answer_is_that_of_its_schema() -> None:
    msgspec.convert(create_hours("workload"), AskHours)
