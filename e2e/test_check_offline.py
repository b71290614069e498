"""`tallygate check` says without a cluster what the cluster says: the same objects refused, for the same mistakes."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.namespaces import new_namespace
from e2e.ports import Cluster

_ROOT = Path(__file__).parent.parent
_FILES = sorted((Path(__file__).parent / "cases" / "checked").iterdir())

_TOLD_BY_CAUSES = re.compile(r'The \w+ "[^"]*" is invalid: ?\n?')
_BULLET = re.compile(r"(?:^|\n)\* ")
_BY_A_RULE = re.compile(r"(?P<field>.*?): (?P<message>.*) \((?P<code>TG\d+), rule [\w-]+(?:: .*)?\)", re.DOTALL)
_COPIED = re.compile(r"\.(?:requests|limits|capacity|allocatable|default|defaultRequest|min|max)(?=\[|$)")
_UNREADABLE = {"TG004", "TG109", "TG404"}  # the codes of what the API server cannot decode
_BEYOND_CHECK = {"Overhead set without corresponding RuntimeClass"}
"""Refusals by what only the cluster knows: which RuntimeClass gives a pod its overhead."""


class Mistake(NamedTuple):
    """What a rule says, where; of a mistake that Kubernetes tells of in its own words, only where.

    The API server copies limits into requests, capacity into allocatable and a LimitRange's maximum into its defaults
    before anybody looks, so that a mistake may be told of the copy. `check` tells of what is written: where it is a
    copy does not matter here.
    """

    where: str
    message: str = ""
    code: str = ""

    @classmethod
    def at(cls, field: str, message: str = "", code: str = "") -> "Mistake":
        """A mistake at a field or at any copy of it."""
        return cls(_COPIED.sub(".*", field), message, code)


Findings = dict[tuple[str, str, str], list[dict[str, Any]]]
"""What `check` calls an error, by file name, kind and name."""


@pytest.fixture(scope="module")
def offline() -> Findings:
    """What `check` says of all files at once."""
    done = subprocess.run(  # noqa: S603  this very program, and no shell
        [sys.executable, "-m", "webhook.cli", "check", str(_FILES[0].parent), "--output=json"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    found: Findings = defaultdict(list)
    for each in json.loads(done.stdout)["findings"]:
        if each["level"] == "error":
            found[Path(each["file"]).name, each["object"]["kind"], each["object"]["name"]].append(each)
    return found


@pytest.fixture(scope="module")
def empty(cluster: Cluster) -> Iterator[str]:
    """A namespace in which nothing is ever stored."""
    with new_namespace(cluster) as name:
        yield name


def test_there_are_enough_files_to_mean_something() -> None:
    assert len(_FILES) >= 40


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_check_refuses_what_the_cluster_refuses_and_says_the_same(
    file: Path, cluster: Cluster, empty: str, offline: Findings
) -> None:
    for each in _objects(cluster, empty, file):
        name = each["metadata"].get("name") or each["metadata"]["generateName"]
        done = cluster.kubectl("create", "--dry-run=server", f"--namespace={empty}", "-f", "-", stdin=json.dumps(each))
        findings = offline.get((file.name, each["kind"], name), [])
        if any(why in done.stderr for why in _BEYOND_CHECK):
            continue
        assert bool(findings) == bool(done.returncode), f"{name}: {done.stderr or findings}"
        if findings:
            _same(done.stderr, findings)


def _objects(cluster: Cluster, namespace: str, file: Path) -> list[dict[str, Any]]:
    """The objects of a file as kubectl reads them, each by itself."""
    to = f"--namespace={namespace}"
    said = cluster.kubectl("create", "--dry-run=client", "--output=json", to, "-f", str(file))
    assert said.returncode == 0, said.stderr
    decoder, text, objects = json.JSONDecoder(), said.stdout.strip(), list[dict[str, Any]]()
    while text:
        whole, end = decoder.raw_decode(text)
        objects += whole["items"] if whole["kind"] == "List" else [whole]
        text = text[end:].lstrip()
    return objects


def _same(printed: str, findings: list[dict[str, Any]]) -> None:
    """That kubectl prints the very mistakes found; the mutating webhook's come before Kubernetes' own and hide them."""
    begin = _TOLD_BY_CAUSES.match(printed)
    if begin is None:
        assert "(BadRequest)" in printed
        assert {each["code"] for each in findings} <= _UNREADABLE
        return
    lines = [line for line in _BULLET.split(printed[begin.end() :].rstrip("\n")) if line]
    by_rules = [each for each in findings if "rule" in each["by"]]
    if by_rules:
        said = {Mistake.at(each["field"], each["message"], each["code"]) for each in by_rules}
        assert {_of_a_rule(line) for line in lines} == said
    else:
        assert {Mistake.at(line.partition(": ")[0]) for line in lines} == {
            Mistake.at(each["field"]) for each in findings
        }


def _of_a_rule(line: str) -> Mistake:
    match = _BY_A_RULE.fullmatch(line)
    assert match is not None, line
    return Mistake.at(match["field"], match["message"], match["code"])
