"""`tallygate check` without a cluster and the cluster agree: the same objects rejected, for the same mistakes."""

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
from e2e.command_output import run_kubectl, run_tallygate
from e2e.namespaces import new_namespace
from e2e.ports import Cluster
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError

_FILES = sorted((Path(__file__).parent / "cases" / "checked").iterdir())

_BY_A_RULE = re.compile(r"(?P<message>.*) \((?P<code>TG\d+), rule [\w-]+(?:: .*)?\)", re.DOTALL)
_COPIED = re.compile(r"\.(?:requests|limits|capacity|allocatable|default|defaultRequest|min|max)(?=\[|$)")
_AMOUNT = re.compile(r"(?<![\w./-])\d[\w.]*\b")
_UNREADABLE = {"TG004", "TG109", "TG404", "TG409"}  # the codes of what the API server cannot decode
_BEYOND_CHECK = {"Overhead set without corresponding RuntimeClass"}
"""Refusals by what only the cluster knows: which RuntimeClass gives a pod its overhead."""


def _format_number(match: re.Match[str]) -> str:
    """Return a quantity in the canonical form of the API server, and another text as it is."""
    try:
        return Quantity.parse(match[0]).canonical
    except QuantityError:
        return match[0]


class Mistake(NamedTuple):
    """The field and the message of a rule; of a mistake that Kubernetes reports in its own words, only the field.

    Amounts in a message are compared by their numbers: `check` shows them as they are written, and the gate as the API
    server sends them.

    The API server copies limits into requests, capacity into allocatable and a LimitRange's maximum into its defaults
    before validation, so that a mistake may be reported of the copy. `check` reports what is written: where it is a
    copy does not matter here.
    """

    where: str
    message: str = ""
    code: str = ""

    @classmethod
    def from_field(cls, field: str, message: str = "", code: str = "") -> "Mistake":
        """Return a mistake at a field or at any copy of it."""
        return cls(_COPIED.sub(".*", field), _AMOUNT.sub(_format_number, message), code)


Findings = dict[tuple[str, str, str], list[dict[str, Any]]]
"""What `check` calls an error, by file name, kind and name."""


@pytest.fixture(scope="module")
def offline(cluster: Cluster) -> Findings:
    """Return the findings of `check`: for the LimitRanges, and for all other files at once.

    A LimitRange that is checked with pods bounds them, and none is ever stored in the cluster of these cases.
    """
    of_ranges = [file for file in _FILES if file.name.startswith("limit-ranges-")]
    found: Findings = defaultdict(list)
    for files in (of_ranges, [file for file in _FILES if file not in of_ranges]):
        done = run_tallygate(cluster, "check", *map(str, files), "--output=json")
        assert done.returncode == 1, done.stderr
        for each in json.loads(done.stdout)["findings"]:
            if each["level"] == "error":
                found[Path(each["file"]).name, each["object"]["kind"], each["object"]["name"]].append(each)
    return found


@pytest.fixture(scope="module")
def empty(cluster: Cluster) -> Iterator[str]:
    """Create a namespace in which nothing is ever stored."""
    with new_namespace(cluster) as name:
        yield name


@pytest.fixture(scope="module")
def read(cluster: Cluster, empty: str) -> dict[Path, list[Object]]:
    """Return the objects of each file as kubectl reads them, each by itself."""
    files = [f"--filename={file}" for file in _FILES]
    printed = run_kubectl(cluster, "create", "--dry-run=client", "--output=json", f"--namespace={empty}", *files)
    objects = _decode(printed)
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
        if any(why in answer.rejection for why in _BEYOND_CHECK):
            continue
        assert bool(findings) is not answer.is_done, f"{name}: {answer.rejection or findings}"
        if findings:
            _same(json.loads(answer.body), findings)


def _answer(cluster: Cluster, namespace: str, made: Object) -> Answer:
    """Return the API server's answer to an object, sent as `kubectl create --dry-run=server` sends it."""
    ours = api(cluster.kubeconfig)
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    return ours.ask("POST", ours.collection(made, namespace), made, query=query)


def _decode(text: str) -> Iterator[Object]:
    """Yield the objects of one JSON text after the other, and those of their Lists."""
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        whole, end = decoder.raw_decode(text)
        yield from whole["items"] if whole["kind"] == "List" else [whole]
        text = text[end:]


def _names(file: Path) -> Iterator[str]:
    """Yield the names of the objects of a file, in their order."""
    for whole in filter(None, yaml.load_all(file.read_text(), yaml.BaseLoader)):
        yield from map(_name, whole["items"] if whole["kind"] == "List" else [whole])


def _name(made: Object) -> str:
    name: str = made["metadata"].get("name") or made["metadata"]["generateName"]
    return name


def _same(status: Object, findings: list[dict[str, Any]]) -> None:
    """Check that exactly these mistakes are reported; those of the mutating webhook hide Kubernetes' own."""
    if status["reason"] != "Invalid":
        assert status["reason"] == "BadRequest"
        assert {each["code"] for each in findings} <= _UNREADABLE
        return
    causes = status["details"]["causes"]
    by_rules = [each for each in findings if "rule" in each["by"]]
    if by_rules:
        found = {Mistake.from_field(each["field"], each["message"], each["code"]) for each in by_rules}
        assert {_parse_cause(each) for each in causes} == found
    else:
        assert {Mistake.from_field(each["field"]) for each in causes} == {
            Mistake.from_field(each["field"]) for each in findings
        }


def _parse_cause(cause: dict[str, str]) -> Mistake:
    match = _BY_A_RULE.fullmatch(cause["message"])
    assert match is not None, cause
    return Mistake.from_field(cause["field"], match["message"], match["code"])
