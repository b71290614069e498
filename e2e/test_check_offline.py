"""`tallygate check` says without a cluster what the cluster says: the same objects refused, for the same mistakes."""

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from e2e.api import Answer, Object, api
from e2e.namespaces import new_namespace
from e2e.ports import Cluster
from e2e.said import said
from e2e.typed import tallygate

_FILES = sorted((Path(__file__).parent / "cases" / "checked").iterdir())

_BY_A_RULE = re.compile(r"(?P<message>.*) \((?P<code>TG\d+), rule [\w-]+(?:: .*)?\)", re.DOTALL)
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
def offline(cluster: Cluster) -> Findings:
    """What `check` says of all files at once."""
    done = tallygate(cluster, "check", str(_FILES[0].parent), "--output=json")
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


@pytest.fixture(scope="module")
def read(cluster: Cluster, empty: str) -> dict[Path, list[Object]]:
    """The objects of each file as kubectl reads them, each by itself."""
    files = [f"--filename={file}" for file in _FILES]
    printed = said(cluster, "create", "--dry-run=client", "--output=json", f"--namespace={empty}", *files)
    objects = _decoded(printed)
    found: dict[Path, list[Object]] = {}
    for file in _FILES:
        names = list(_names(file))
        found[file] = list(itertools.islice(objects, len(names)))
        assert [_name(each) for each in found[file]] == names
    assert next(objects, None) is None
    return found


def test_there_are_enough_files_to_mean_something() -> None:
    assert len(_FILES) >= 40


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_check_refuses_what_the_cluster_refuses_and_says_the_same(
    file: Path, cluster: Cluster, empty: str, offline: Findings, read: dict[Path, list[Object]]
) -> None:
    for each in read[file]:
        name = _name(each)
        answer = _answer(cluster, empty, each)
        findings = offline.get((file.name, each["kind"], name), [])
        if any(why in answer.refusal for why in _BEYOND_CHECK):
            continue
        assert bool(findings) is not answer.is_done, f"{name}: {answer.refusal or findings}"
        if findings:
            _same(json.loads(answer.body), findings)


def _answer(cluster: Cluster, namespace: str, made: Object) -> Answer:
    """What the API server says to it, asked as `kubectl create --dry-run=server` asks."""
    ours = api(cluster.kubeconfig)
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    return ours.ask("POST", ours.collection(made, namespace), made, query=query)


def _decoded(text: str) -> Iterator[Object]:
    """The objects of one JSON text after the other, and those of their Lists."""
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        whole, end = decoder.raw_decode(text)
        yield from whole["items"] if whole["kind"] == "List" else [whole]
        text = text[end:]


def _names(file: Path) -> Iterator[str]:
    """What the objects of a file are called, in their order."""
    for whole in filter(None, yaml.load_all(file.read_text(), yaml.BaseLoader)):
        yield from map(_name, whole["items"] if whole["kind"] == "List" else [whole])


def _name(made: Object) -> str:
    name: str = made["metadata"].get("name") or made["metadata"]["generateName"]
    return name


def _same(status: Object, findings: list[dict[str, Any]]) -> None:
    """That the very mistakes found are told; the mutating webhook's come before Kubernetes' own and hide them."""
    if status["reason"] != "Invalid":
        assert status["reason"] == "BadRequest"
        assert {each["code"] for each in findings} <= _UNREADABLE
        return
    causes = status["details"]["causes"]
    by_rules = [each for each in findings if "rule" in each["by"]]
    if by_rules:
        found = {Mistake.at(each["field"], each["message"], each["code"]) for each in by_rules}
        assert {_of_a_rule(each) for each in causes} == found
    else:
        assert {Mistake.at(each["field"]) for each in causes} == {Mistake.at(each["field"]) for each in findings}


def _of_a_rule(cause: dict[str, str]) -> Mistake:
    match = _BY_A_RULE.fullmatch(cause["message"])
    assert match is not None, cause
    return Mistake.at(cause["field"], match["message"], match["code"])
