"""The content of log lines: user, object and result of a request, and nothing of the object's fields."""

import copy
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.process import ServerProcess, eventually

_SECRET, _NAME = "zqxs", "zqxn"  # in texts that must not be logged, and in names of users, namespaces and objects
_TOKEN = f"{_SECRET}-token-of-the-path"
_POLICIES = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec:
  resources: ["*"]
  match: {namespaces: {selector: {matchLabels: {unknown: here}}}}
  checks: {perContainer: {max: 1}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: everywhere}
spec:
  resources: ["*"]
  checks: {wholeQuantity: true, perContainer: {max: 4}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: ["*"]}, hard: {nvidia.com/gpu: 1, limits.memory: 1Gi}}
"""
_NUMBERS = itertools.count()


def _secret() -> str:
    return f"{_SECRET}{next(_NUMBERS)}"


def _name() -> str:
    return f"{_NAME}{next(_NUMBERS)}"


def _pod(amounts: dict[str, str]) -> dict[str, Any]:
    s = _secret
    owner = {"apiVersion": s(), "kind": s(), "name": s(), "uid": s(), "controller": True}
    container = {
        "name": _name(),
        "image": s(),
        "command": [s()],
        "args": [f"--password={s()}"],
        "env": [
            {"name": s(), "value": s()},
            {"name": s(), "valueFrom": {"secretKeyRef": {"name": s(), "key": s()}}},
        ],
        "resources": {"requests": amounts, "limits": amounts, "claims": [{"name": s()}]},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": s(),
            "generateName": s(),
            "namespace": s(),
            "uid": s(),
            "labels": {s(): s()},
            "annotations": {s(): s(), "kubectl.kubernetes.io/last-applied-configuration": s()},
            "ownerReferences": [owner],
            "finalizers": [s()],
            "managedFields": [{"manager": s()}],
        },
        "spec": {
            "containers": [container],
            "initContainers": [{"name": _name(), "image": s(), "restartPolicy": s()}],
            "volumes": [{"name": s(), "secret": {"secretName": s()}}],
            "imagePullSecrets": [{"name": s()}],
            "serviceAccountName": s(),
            "nodeName": s(),
            "nodeSelector": {s(): s()},
            "priorityClassName": s(),
            "tolerations": [{"key": s(), "value": s()}],
        },
        "status": {"message": s(), "phase": s()},
    }


def _review(operation: str, amounts: dict[str, str]) -> dict[str, Any]:
    """Return a review with a mark in every text that a client can choose."""
    extra = {_secret(): [_secret()]}
    request = {
        "uid": _name(),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": _secret(), "version": _secret(), "resource": _secret()},
        "requestKind": {"group": _secret(), "version": _secret(), "kind": _secret()},
        "name": _name(),
        "namespace": _name(),
        "operation": operation,
        "userInfo": {"username": _name(), "uid": _secret(), "groups": [_secret()], "extra": extra},
        "object": _pod(amounts),
        "oldObject": _pod({"nvidia.com/gpu": "1"}) if operation == "UPDATE" else None,
        "options": {"fieldManager": _secret()},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _list_text_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every text in a value."""
    if isinstance(value, str):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from _list_text_paths(each, (*path, key))


def _replace_at(review: dict[str, Any], path: tuple[Any, ...], instead: Any) -> dict[str, Any]:
    """Return a copy of the review with another value at this path."""
    changed = copy.deepcopy(review)
    *parents, last = path
    place: Any = changed
    for step in parents:
        place = place[step]
    place[last] = instead
    return changed


_AMOUNTS: dict[str, dict[str, str]] = {
    "admitted": {"nvidia.com/gpu": "1"},
    "more than a cap allows": {"nvidia.com/gpu": "3"},
    "more than a rule allows": {"nvidia.com/gpu": "9"},
    "an invalid quantity": {"nvidia.com/gpu": "one!"},
    "an invalid resource": {"example.com/no!resource": "1500m"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Yield the real gate, with a token, at the lowest log level."""
    folder = tmp_path_factory.mktemp("logged")
    policies, token = folder / "policies.yaml", folder / "token"
    policies.write_text(_POLICIES)
    token.write_text(f"{_TOKEN}\n")
    settings: dict[str, Path | str] = {"policies": policies, "token_file": token, "log_level": "debug"}
    with ServerProcess(folder, "tests.server.gate_server", **settings) as started:
        yield started


def _post(client: httpx.Client, body: bytes) -> None:
    headers = {
        "Authorization": f"Bearer {_secret()}",
        "Cookie": _secret(),
        "User-Agent": _secret(),
        "X-Forwarded-For": _secret(),
    }
    for phase in ("mutate", "validate"):
        client.post(f"/v1/admit/{_TOKEN}/{phase}?timeout={_secret()}", content=body, headers=headers)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("case", _AMOUNTS)
def test_no_text_of_an_object_is_logged(case: str, operation: str, server: ServerProcess) -> None:
    review = _review(operation, _AMOUNTS[case])
    with server.client() as client:
        _post(client, json.dumps(review).encode())
    assert eventually(lambda: review["request"]["uid"] in server.log)
    assert [each for each in server.log.splitlines() if _SECRET in each] == []


@pytest.mark.parametrize(
    "instead", [[f"{_SECRET}list"], {f"{_SECRET}key": f"{_SECRET}value"}, 7], ids=["list", "mapping", "number"]
)
def test_no_text_of_a_review_with_a_wrong_type_is_logged(instead: object, server: ServerProcess) -> None:
    review = _review("UPDATE", {"nvidia.com/gpu": "1"})
    last = _review("CREATE", {"nvidia.com/gpu": "1"})
    with server.client() as client:
        for path in _list_text_paths(review):
            if "limits" in path or "requests" in path:
                continue  # the reason quotes what is not a quantity
            _post(client, json.dumps(_replace_at(review, path, instead)).encode())
        _post(client, json.dumps(last).encode())
    assert eventually(lambda: last["request"]["uid"] in server.log)
    assert [each for each in server.log.splitlines() if _SECRET in each] == []


@pytest.mark.parametrize(
    "body",
    [
        f'"{_SECRET}"'.encode(),
        f'{{"apiVersion": "{_SECRET}", "kind": "{_SECRET}", "request": {{"uid": "u"}}}}'.encode(),
        f"{_SECRET}: not JSON".encode(),
        f'{{"request": "{_SECRET}'.encode(),
        _SECRET.encode() + b"\xff\xfe",
    ],
)
def test_no_text_of_an_invalid_review_is_logged(body: bytes, server: ServerProcess) -> None:
    before = len(server.find_log_lines("request-rejected"))
    with server.client() as client:
        _post(client, body)
    assert eventually(lambda: len(server.find_log_lines("request-rejected")) == before + 2)
    assert [each for each in server.log.splitlines() if _SECRET in each] == []


def test_a_path_that_is_nearly_right_is_not_logged_with_its_token(server: ServerProcess) -> None:
    review = _review("CREATE", {"nvidia.com/gpu": "1"})
    with server.client() as client:
        for path in (
            f"/v1/admit/{_TOKEN}x/validate",
            f"/v1/admit/{_TOKEN}/validated",
            f"/{_TOKEN}",
            f"/readyz?{_TOKEN}",
        ):
            client.post(path, json=review)
        _post(client, json.dumps(review).encode())
    assert eventually(lambda: review["request"]["uid"] in server.log)
    assert [each for each in server.log.splitlines() if _SECRET in each] == []


def test_a_text_of_a_megabyte_makes_no_long_line(server: ServerProcess) -> None:
    before, long = len(server.find_log_lines("request-rejected")), "x" * 1_000_000
    review = _review("CREATE", {"nvidia.com/gpu": "1"}) | {"kind": long, "apiVersion": long}
    with server.client() as client:
        _post(client, json.dumps(review).encode())
    assert eventually(lambda: len(server.find_log_lines("request-rejected")) == before + 2)
    assert max(map(len, server.log.splitlines())) < 2000
