"""Snapshots that no cluster produces: each gives one sentence, and none sends control characters to a terminal."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallygate.cli.app import root
from tallygate.state.kubernetes.cap_ledger import encode_ledger
from tallygate.state.ports import LedgerKey
from tests.cli.usage.clusters import GPU, Object, namespace, pod, write_snapshot
from tests.cli.usage.test_verify import ACTIVE_CAP, CAP, COUNTED_AT, KEY, create_ledger
from tests.effort import examples


def create_ledger_object() -> Object:
    """Return a ledger as the API server stores it."""
    made: Object = json.loads(encode_ledger(KEY, create_ledger(1), "gate", None, COUNTED_AT).body)
    made["metadata"] |= {"uid": "l", "resourceVersion": "120"}
    return made


def run(folder: Path, items: list[Object], *arguments: str) -> Result:
    """Run `tallygate usage` for a cap, and check that it does not crash."""
    (folder / "cap.yaml").write_text(CAP)
    path = write_snapshot(folder, items)
    result = CliRunner().invoke(
        root, ["usage", "--policies", str(folder / "cap.yaml"), "--snapshot", str(path), *arguments]
    )
    assert result.exit_code in {0, 1, 2}, result.stderr
    assert "\x1b" not in result.output
    return result


TEAM = namespace("team-a")


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (pod("p", {GPU: "1"}, meta={"name": None}), "a pod without uid"),
        (pod("p", {GPU: "1"}, meta={"resourceVersion": "0x1"}), "a resource version is a whole number above 0"),
        (pod("p", {GPU: "1"}, meta={"creationTimestamp": "soon"}), "Invalid isoformat string"),
        ({**create_ledger_object(), "spec": {}}, "missing required field `cap`"),
        (
            {**create_ledger_object(), "metadata": {"uid": "l", "name": "l", "resourceVersion": ""}},
            "a resource version is",
        ),
    ],
)
def test_invalid_objects_are_reported(tmp_path: Path, broken: Object, sentence: str) -> None:
    """Print no amounts that could be mistaken for valid ones."""
    result = run(tmp_path, [TEAM, broken])
    assert sentence in result.stderr
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_pod_of_the_first_year_is_counted(tmp_path: Path) -> None:
    """Count it, since the time is valid, although no pod is that old."""
    old = pod("p", {GPU: "1"}, meta={"creationTimestamp": "0001-01-01T00:00:00"})
    result = run(tmp_path, [TEAM, old], "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [each["used"] for each in json.loads(result.stdout)["items"]] == [1]


def test_a_pod_with_an_invalid_quantity_is_named(tmp_path: Path) -> None:
    """Count it as 0, as the gate does."""
    items = [TEAM, pod("bad", {GPU: "many"}), pod("good", {GPU: "2"})]
    result = run(tmp_path, items)
    assert "counted as 0 because of an invalid quantity: team-a/bad" in result.stdout
    assert "cannot be read" in run(tmp_path, items, "--explain", "gpus").stdout


def test_a_ledger_with_another_name_is_skipped(tmp_path: Path) -> None:
    """Skip it, since the gate never reads it."""
    made = create_ledger_object()
    made["metadata"]["name"] = "mine"
    result = run(tmp_path, [TEAM, made])
    assert "capledger gate/mine has a name that no gate gives, and is skipped" in result.stderr
    assert run(tmp_path, [TEAM, made], "--verify").exit_code == 0


@pytest.mark.parametrize("place", ["namespace", "uid", "name"])
def test_names_send_no_control_characters(tmp_path: Path, place: str) -> None:
    """Print names with slashes too."""
    made, bell = create_ledger_object(), pod("p\x1b[31m", {GPU: "1"})
    made["metadata"][place] = "a/b\x1b[31m"
    for arguments in ((), ("--explain", "gpus"), ("--verify",)):
        run(tmp_path, [TEAM, made, bell], *arguments)


def test_a_ledger_of_another_cap_is_not_shown(tmp_path: Path) -> None:
    """Skip a ledger whose cap has this name and other settings."""
    made = json.loads(
        encode_ledger(LedgerKey("gpus-0000000000", KEY.namespace), create_ledger(1), "gate", None, COUNTED_AT).body
    )
    made["metadata"] |= {"uid": "l", "resourceVersion": "120"}
    result = run(tmp_path, [TEAM, made])
    assert "ledgers of caps that are missing from these policies, or differ there, are not shown: gpus" in result.stderr
    assert ACTIVE_CAP.key not in result.output


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda key: st.lists(key, max_size=3) | st.dictionaries(st.text(max_size=8), key, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    section=st.sampled_from(["metadata", "spec", "status"]),
    key=st.text(max_size=12),
    value=JSON,
    kind=st.integers(0, 2),
)
def test_no_content_of_an_object_crashes_the_command(
    tmp_path: Path, section: str, key: str, value: Any, kind: int
) -> None:
    """Change objects of every kind at every field."""
    broken = [namespace("team-b"), pod("p", {GPU: "1"}), create_ledger_object()][kind]
    broken[section] = {**broken.get(section, {}), key: value} if key else value
    for arguments in ((), ("--explain", "gpus"), ("--verify",)):
        run(tmp_path, [TEAM, broken], *arguments)
