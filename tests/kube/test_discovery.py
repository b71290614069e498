"""The resources that an API server serves: what aggregated discovery answers, and hostile or odd answers."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient
from tallygate.kube.discovery import Discovery
from tallygate.kube.transport import Response
from tests.kube.kubeconfig import load_config
from tests.kube.raw_server import full_response, raw_server

JOB_SETS = ("jobset.x-k8s.io", "v1alpha2", "jobsets")
WORKFLOW_TEMPLATES = ("argoproj.io", "v1alpha1", "clusterworkflowtemplates")


def version(name: str, *plurals: str, scope: str = "Namespaced", **extra: str) -> dict[str, Any]:
    """Return one version of a group with its resources."""
    resources = [
        {
            "resource": plural,
            "scope": scope,
            "responseKind": {"kind": "Any"},
            "verbs": ["get"],
            "subresources": [{"subresource": "status"}],
        }
        for plural in plurals
    ]
    return {"version": name, "resources": resources, "freshness": "Current"} | extra


def discovery(**groups: list[dict[str, Any]]) -> bytes:
    """Return aggregated discovery of groups; a `_` in the name of a group stands for a dot."""
    items = [
        {"metadata": {"name": name.replace("_", "."), "creationTimestamp": None}, "versions": versions}
        for name, versions in groups.items()
    ]
    return json.dumps(
        {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}
    ).encode()


JOB_SET_GROUP = {"jobset.x-k8s.io": [version("v1alpha2", "jobsets")]}

WHOLE = discovery(**JOB_SET_GROUP)


class AnsweringClient(ApiClient):
    """A client whose server gives one answer."""

    def __init__(self, *responses: Response) -> None:
        self.responses = list(responses)
        self.etags: list[str] = []

    def get(self, path: str, *_: object, etag: str = "", **__: object) -> Response:
        """Return the next answer."""
        assert path == "/apis"
        self.etags.append(etag)
        return self.responses.pop(0)


def test_every_served_resource_is_found_with_its_scope() -> None:
    body = discovery(
        **JOB_SET_GROUP, argoproj_io=[version("v1alpha1", WORKFLOW_TEMPLATES[2], scope="Cluster"), version("v1", "a")]
    )
    assert Discovery(AnsweringClient(Response(200, body))).read() == {
        JOB_SETS: True,
        WORKFLOW_TEMPLATES: False,
        ("argoproj.io", "v1", "a"): True,
    }


@pytest.mark.parametrize("timeout", [None, 5.0], ids=["pool", "direct"])
def test_an_unchanged_answer_costs_a_304(tmp_path: Path, timeout: float | None) -> None:
    first = full_response(discovery(**JOB_SET_GROUP), headers='ETag: "one"\r\n')
    unchanged = full_response(b"", "304 Not Modified", 'ETag: "one"\r\n')
    later = full_response(discovery(), headers='ETag: "two"\r\n')
    with raw_server([first], [unchanged], [later]) as server:
        reader = Discovery(ApiClient(load_config(server, tmp_path)))
        assert [reader.read(timeout) for _ in range(3)] == [{JOB_SETS: True}, {JOB_SETS: True}, {}]
    accepted = b"Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n"
    assert all(accepted in request for request in server.requests)
    assert [b'If-None-Match: "one"\r\n' in request for request in server.requests] == [False, True, True]


def test_a_stale_version_has_the_resources_that_were_last_known() -> None:
    stale = discovery(**{"jobset.x-k8s.io": [{"version": "v1alpha2", "freshness": "Stale"}]})
    answers = [Response(200, body) for body in (discovery(**JOB_SET_GROUP), stale, discovery(), stale)]
    reader = Discovery(AnsweringClient(*answers))
    assert [reader.read() for _ in range(4)] == [{JOB_SETS: True}, {JOB_SETS: True}, {}, {}]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, b"", "answers no discovery"),
        (200, b"<html>proxy</html>", "answers no discovery"),
        (200, b"[" * 100_000, "answers no discovery"),
        (200, b'{"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": 7}}]}', "answers no discovery"),
        (200, b'{"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "\xff"}}]}', "answers no discovery"),
        (200, b'{"kind": "APIGroupList", "groups": []}', "Kubernetes 1.30 or newer"),
        (200, b"{}", "Kubernetes 1.30 or newer"),
        (304, b"", "304"),
        (403, b'{"kind": "Status", "message": "no discovery for you"}', "no discovery for you"),
        (406, b"", "406"),
        (503, b"", "503"),
    ],
)
def test_an_odd_answer_is_an_error_and_the_last_good_one_stays_known(status: int, body: bytes, message: str) -> None:
    good = Response(200, discovery(**JOB_SET_GROUP), etag='"one"')
    reader = Discovery(AnsweringClient(Response(status, body), good, Response(304, b"")))
    with pytest.raises(ApiError, match=message):
        reader.read()
    assert [reader.read(), reader.read()] == [{JOB_SETS: True}] * 2


@given(st.binary(max_size=60) | st.integers(0, len(WHOLE) - 1).map(lambda end: WHOLE[:end]))
def test_other_bytes_and_cut_answers_are_errors(body: bytes) -> None:
    with pytest.raises(ApiError):
        Discovery(AnsweringClient(Response(200, body))).read()
