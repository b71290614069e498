"""What a log line may hold: who asked, about what, and what came of it; never what stood in the object."""

import copy
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.process import ServerProcess, eventually

_SECRET, _NAME = "zqxs", "zqxn"  # in texts that must not be logged, and in names of who, where and what
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
        "name": s(),
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
            "initContainers": [{"name": s(), "image": s(), "restartPolicy": s()}],
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
    """A review with a mark in every text that a client can choose."""
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


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every text in it."""
    if isinstance(value, str):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from _leaves(each, (*path, key))


def _broken(review: dict[str, Any], path: tuple[Any, ...], instead: Any) -> dict[str, Any]:
    """The same with something of another type at this path."""
    made = copy.deepcopy(review)
    *way, last = path
    place: Any = made
    for step in way:
        place = place[step]
    place[last] = instead
    return made


_ASKED: dict[str, dict[str, str]] = {
    "what is let in": {"nvidia.com/gpu": "1"},
    "what no cap has room for": {"nvidia.com/gpu": "3"},
    "what no rule allows": {"nvidia.com/gpu": "9"},
    "what is no quantity": {"nvidia.com/gpu": f"{_SECRET}quantity"},
    "what is no resource": {f"example.com/{_SECRET}!resource": "1500m"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The real gate, with a token, at the level that logs most."""
    folder = tmp_path_factory.mktemp("logged")
    policies, token = folder / "policies.yaml", folder / "token"
    policies.write_text(_POLICIES)
    token.write_text(f"{_TOKEN}\n")
    settings: dict[str, Path | str] = {"policies": policies, "token_file": token, "log_level": "debug"}
    with ServerProcess(folder, "tests.server.real", **settings) as started:
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
@pytest.mark.parametrize("asked", _ASKED)
def test_nothing_of_an_object_is_logged_of(asked: str, operation: str, server: ServerProcess) -> None:
    review = _review(operation, _ASKED[asked])
    with server.client() as client:
        _post(client, json.dumps(review).encode())
    assert eventually(lambda: review["request"]["uid"] in server.log)
    assert _SECRET not in server.log


@pytest.mark.parametrize(
    "instead", [[f"{_SECRET}list"], {f"{_SECRET}key": f"{_SECRET}value"}, 7], ids=["list", "mapping", "number"]
)
def test_nothing_of_a_review_is_logged_that_has_something_of_another_type(
    instead: object, server: ServerProcess
) -> None:
    review = _review("UPDATE", {"nvidia.com/gpu": "1"})
    last = _review("CREATE", {"nvidia.com/gpu": "1"})
    with server.client() as client:
        for path in _leaves(review):
            _post(client, json.dumps(_broken(review, path, instead)).encode())
        _post(client, json.dumps(last).encode())
    assert eventually(lambda: last["request"]["uid"] in server.log)
    assert _SECRET not in server.log


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
def test_nothing_of_a_body_is_logged_that_is_no_review(body: bytes, server: ServerProcess) -> None:
    before = len(server.logged("request-rejected"))
    with server.client() as client:
        _post(client, body)
    assert eventually(lambda: len(server.logged("request-rejected")) == before + 2)
    assert _SECRET not in server.log


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
    assert _SECRET not in server.log


def test_a_text_of_a_megabyte_makes_no_long_line(server: ServerProcess) -> None:
    before, long = len(server.logged("request-rejected")), "x" * 1_000_000
    review = _review("CREATE", {"nvidia.com/gpu": "1"}) | {"kind": long, "apiVersion": long}
    with server.client() as client:
        _post(client, json.dumps(review).encode())
    assert eventually(lambda: len(server.logged("request-rejected")) == before + 2)
    assert max(map(len, server.log.splitlines())) < 2000
