"""The client of a cluster's API in this process, for the surroundings of a case.

kubectl takes a process for each call, which is fifty times the work; cases use it where people see or type it.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode

from urllib3 import BaseHTTPResponse, Retry, Timeout
from urllib3.exceptions import HTTPError

from e2e.errors import ClusterError
from tallygate.kube.config import load_kubeconfig

Object = dict[str, Any]

MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
"""Kinds of patches (RFC 7386, RFC 6902, and Kubernetes' own)."""

_DONE: Final = range(200, 300)
_APPLY: Final = "application/apply-patch+yaml"
_AGAIN: Final = Retry(2, redirect=False, respect_retry_after_header=False, backoff_factor=0.1)
"""A reused connection may be closed just as it is used: a failed connection is retried, and so is a request that
changes nothing, or changes the same again."""

_MOST_TIMES: Final = 10
_LONGEST_PAUSE: Final = 5  # seconds

_TIMES: Final = Timeout(connect=10.0, read=120.0)
"""Seconds that an API server has to be reached, and to answer: a busy machine is slow."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API server: the HTTP status, the body, and the warnings beside it."""

    status: int
    body: str
    warnings: tuple[str, ...]

    @property
    def is_done(self) -> bool:
        """Whether the request was carried out."""
        return self.status in _DONE

    @property
    def rejection(self) -> str:
        """The reason of a rejection in the API server's words; empty if the request was carried out."""
        if self.is_done:
            return ""
        try:
            return str(json.loads(self.body)["message"])
        except (ValueError, KeyError):  # a request that is rejected before it is decoded gets plain text
            return self.body

    @property
    def messages(self) -> str:
        """All messages for the caller: the warnings, and the reason of a rejection."""
        return "\n".join(filter(None, (*self.warnings, self.rejection)))

    def object(self) -> Object:
        """Return the object of the answer.

        Raises:
            ClusterError: if the request was rejected; the text is the API server's.
        """
        if not self.is_done:
            raise ClusterError(f"the API server answers {self.status}: {self.body}")
        content: Object = json.loads(self.body)
        return content


class Api:
    """The API as the user of a kubeconfig; its connections are open for as long as this process runs."""

    def __init__(self, kubeconfig: Path) -> None:
        """Read the kubeconfig; nothing is sent yet.

        Raises:
            ClientConfigError: if the kubeconfig leads to no cluster.
        """
        self._access = load_kubeconfig(kubeconfig)
        self._kinds: dict[str, dict[str, Object]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close its connections."""
        self._access.pool.clear()

    def ask(  # noqa: PLR0913  what a request has
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        kind: str = "application/json",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request and return the answer; retry when the answer asks for it, as client-go (rest/with_retry.go).

        Raises:
            ClusterError: if it does not answer.
        """
        # The API server reads the body of an apply as YAML, which has no escapes of two parts.
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        url = f"{self._access.server}{path}{'?' if query else ''}{urlencode(query or {})}"
        more = {"Content-Type": kind, **(headers or {})}
        answer = self._send(method, url, content, more)
        for _ in range(_MOST_TIMES):
            after = answer.headers.get("Retry-After", "")
            if answer.status != HTTPStatus.TOO_MANY_REQUESTS or not after.isdigit():
                break
            time.sleep(min(int(after), _LONGEST_PAUSE))
            answer = self._send(method, url, content, more)
        return Answer(answer.status, answer.data.decode(), tuple(map(_unquote, answer.headers.getlist("Warning"))))

    def _send(self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]) -> BaseHTTPResponse:
        whole_headers = self._access.create_headers(headers)
        try:
            return self._access.pool.request(
                method, url, body=content, headers=whole_headers, timeout=_TIMES, retries=_AGAIN
            )
        except HTTPError as error:
            raise ClusterError(f"{method} {url}: {error}") from error

    def get(self, path: str, **query: str) -> Object:
        """Return an object, or a list of objects.

        Raises:
            ClusterError: if it does not exist, or may not be read.
        """
        return self.ask("GET", path, query=query).object()

    def find(self, path: str) -> Object | None:
        """Return an object, or None if it does not exist.

        Raises:
            ClusterError: if it may not be read.
        """
        answer = self.ask("GET", path)
        return None if answer.status == HTTPStatus.NOT_FOUND else answer.object()

    def items(self, path: str, **query: str) -> list[Object]:
        """Return the objects of a list, as filtered by selectors (`labelSelector`, `fieldSelector`).

        Raises:
            ClusterError: if they may not be read.
        """
        content: list[Object] = self.get(path, **query)["items"]
        return content

    def collection(self, made: Mapping[str, Any], namespace: str) -> str:
        """Return the path of all objects of this kind, within the namespace if the kind is namespaced.

        Raises:
            ClusterError: if there is no such version of its API.
            KeyError: if that version has no such kind.
        """
        version, kind = made["apiVersion"], made["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if root not in self._kinds:
            self._kinds[root] = {each["kind"]: each for each in self.get(root)["resources"] if "/" not in each["name"]}
        content = self._kinds[root][kind]
        return f"{root}/{f'namespaces/{namespace}/' if content['namespaced'] else ''}{content['name']}"

    def create(self, path: str, made: Mapping[str, Any]) -> Object:
        """Create an object in the collection of this path.

        Raises:
            ClusterError: if it is refused.
        """
        return self.ask("POST", path, made).object()

    def patch(self, path: str, patch: object, kind: str = MERGE) -> Object:
        """Change an object.

        Raises:
            ClusterError: if that is refused.
        """
        return self.ask("PATCH", path, patch, kind=kind).object()

    def apply(self, path: str, wanted: Mapping[str, Any]) -> Object:
        """Apply an object as kubectl does by server-side apply, with the ownership of all fields.

        Raises:
            ClusterError: if that is refused.
        """
        query = {"fieldManager": "kubectl", "force": "true"}
        return self.ask("PATCH", path, wanted, kind=_APPLY, query=query).object()

    def delete(self, path: str, **query: str) -> None:
        """Delete an object, or the objects of a collection, if they exist.

        Raises:
            ClusterError: if that is refused.
        """
        answer = self.ask("DELETE", path, query=query)
        if answer.status != HTTPStatus.NOT_FOUND:
            answer.object()


def _unquote(warning: str) -> str:
    """Return the text of a `Warning: 299 - "text"` (k8s.io/apimachinery, pkg/util/net/http.go, v1.36)."""
    text = warning.partition('"')[2].rpartition('"')[0]
    return re.sub(r"\\(.)", r"\1", text).encode("latin-1").decode()


@cache
def api(kubeconfig: Path) -> Api:
    """Return the API as the user of a kubeconfig, which must not be rewritten meanwhile.

    Raises:
        ClientConfigError: if the kubeconfig leads to no cluster.
    """
    return Api(kubeconfig)
