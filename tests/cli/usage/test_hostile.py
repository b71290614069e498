"""Snapshots that no cluster would give: a sentence each, and no terminal that does what they say."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.usage.clusters import GPU, Object, namespace, pod, written
from tests.cli.usage.test_verifying import CAP, COUNTED, COUNTED_AT, KEY, counted
from tests.effort import examples
from webhook.cli.app import root
from webhook.state.kubernetes.cap_ledger import encode_ledger
from webhook.state.ports import LedgerKey


def ledger() -> Object:
    """A ledger as it is stored."""
    made: Object = json.loads(encode_ledger(KEY, counted(1), "gate", None, COUNTED_AT).body)
    made["metadata"] |= {"uid": "l", "resourceVersion": "120"}
    return made


def run(folder: Path, items: list[Object], *arguments: str) -> Result:
    """Ask for usage by a cap; it never crashes."""
    (folder / "cap.yaml").write_text(CAP)
    path = written(folder, items)
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
        (pod("p", {GPU: "1"}, meta={"uid": None}), "a pod without uid"),
        (pod("p", {GPU: "1"}, meta={"resourceVersion": "0x1"}), "a resource version is a whole number above 0"),
        (pod("p", {GPU: "1"}, meta={"creationTimestamp": "soon"}), "Invalid isoformat string"),
        (pod("p", {GPU: "1"}, meta={"creationTimestamp": "0001-01-01T00:00:00"}), ""),
        ({**ledger(), "spec": {}}, "missing required field `cap`"),
        ({**ledger(), "metadata": {"uid": "l", "name": "l", "resourceVersion": ""}}, "a resource version is"),
    ],
)
def test_what_no_cluster_stores_is_told(tmp_path: Path, broken: Object, sentence: str) -> None:
    """And nothing is shown that might be taken for the truth."""
    result = run(tmp_path, [TEAM, broken])
    assert sentence in result.stderr
    if sentence:
        assert (result.exit_code, result.stdout) == (2, "")


def test_a_pod_with_a_quantity_that_is_none_is_named(tmp_path: Path) -> None:
    """It is counted with nothing, as the gate does."""
    items = [TEAM, pod("bad", {GPU: "many"}), pod("good", {GPU: "2"})]
    result = run(tmp_path, items)
    assert "counted as 0 because of an invalid quantity: team-a/bad" in result.stdout
    assert "cannot be read" in run(tmp_path, items, "--explain", "gpus").stdout


def test_a_ledger_that_a_person_has_made_is_passed_over(tmp_path: Path) -> None:
    """The gate would never look at it."""
    made = ledger()
    made["metadata"]["name"] = "mine"
    result = run(tmp_path, [TEAM, made])
    assert "capledger gate/mine has a name that no gate gives, and is skipped" in result.stderr
    assert run(tmp_path, [TEAM, made], "--verify").exit_code == 0


@pytest.mark.parametrize("place", ["namespace", "uid", "name"])
def test_names_do_nothing_to_a_terminal(tmp_path: Path, place: str) -> None:
    """Nor do slashes in them confuse anybody."""
    made, bell = ledger(), pod("p\x1b[31m", {GPU: "1"})
    made["metadata"][place] = "a/b\x1b[31m"
    for arguments in ((), ("--explain", "gpus"), ("--verify",)):
        run(tmp_path, [TEAM, made, bell], *arguments)


def test_only_a_policy_can_say_what_is_counted(tmp_path: Path) -> None:
    """A ledger of a cap of that name that counts otherwise is another's."""
    made = json.loads(
        encode_ledger(LedgerKey("gpus-0000000000", KEY.namespace), counted(1), "gate", None, COUNTED_AT).body
    )
    made["metadata"] |= {"uid": "l", "resourceVersion": "120"}
    result = run(tmp_path, [TEAM, made])
    assert "ledgers of caps that are missing from these policies, or differ there, are not shown: gpus" in result.stderr
    assert COUNTED.key not in result.output


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    where=st.sampled_from(["metadata", "spec", "status"]), inner=st.text(max_size=12), what=JSON, kind=st.integers(0, 2)
)
def test_whatever_stands_in_an_object_is_no_crash(tmp_path: Path, where: str, inner: str, what: Any, kind: int) -> None:
    """Of any kind, at any of its places."""
    broken = [namespace("team-b"), pod("p", {GPU: "1"}), ledger()][kind]
    broken[where] = {**broken.get(where, {}), inner: what} if inner else what
    for arguments in ((), ("--explain", "gpus"), ("--verify",)):
        run(tmp_path, [TEAM, broken], *arguments)
