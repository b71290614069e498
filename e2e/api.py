"""A cluster's API, asked in this process, for what cases need around what they are about.

kubectl takes a process for each call, which is fifty times the work; it stands where it is what people see or type.
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
from webhook.kube.config import load_kubeconfig

Object = dict[str, Any]

MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
"""Kinds of patches (RFC 7386, RFC 6902, and Kubernetes' own)."""

_DONE: Final = range(200, 300)
_APPLY: Final = "application/apply-patch+yaml"
_AGAIN: Final = Retry(2, redirect=False, respect_retry_after_header=False, backoff_factor=0.1)
"""A connection that was kept may be closed just as it is used: who cannot be reached is tried again, and what changes
nothing, or the same again, is asked again."""

_MOST_TIMES: Final = 10
_LONGEST_PAUSE: Final = 5  # seconds

_TIMES: Final = Timeout(connect=10.0, read=120.0)
"""Seconds that an API server has to be reached, and to answer: a busy machine is slow."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server said: the HTTP status, the body, and the warnings beside it."""

    status: int
    body: str
    warnings: tuple[str, ...]

    @property
    def is_done(self) -> bool:
        """Whether it did what it was asked for."""
        return self.status in _DONE

    @property
    def refusal(self) -> str:
        """Why it did not do it, in its words; empty when it did."""
        if self.is_done:
            return ""
        try:
            return str(json.loads(self.body)["message"])
        except (ValueError, KeyError):  # who is refused before anybody looks at what he asks is told so in plain text
            return self.body

    @property
    def told(self) -> str:
        """All that whoever asked is told: the warnings, and why it was refused."""
        return "\n".join(filter(None, (*self.warnings, self.refusal)))

    def object(self) -> Object:
        """The object that came of it.

        Raises:
            ClusterError: it was refused; the text is the API server's.
        """
        if not self.is_done:
            raise ClusterError(f"the API server answers {self.status}: {self.body}")
        found: Object = json.loads(self.body)
        return found


class Api:
    """The API as the user of a kubeconfig; its connections are kept for as long as this process runs."""

    def __init__(self, kubeconfig: Path) -> None:
        """Nothing is asked yet.

        Raises:
            ClientConfigError: the kubeconfig leads to no cluster.
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
        """What it answers, whatever that is; who is told to ask again later does, as client-go (rest/with_retry.go).

        Raises:
            ClusterError: it does not answer.
        """
        content = None if body is None else json.dumps(body)
        url = f"{self._access.server}{path}{'?' if query else ''}{urlencode(query or {})}"
        more = {"Content-Type": kind, **(headers or {})}
        answer = self._asked(method, url, content, more)
        for _ in range(_MOST_TIMES):
            after = answer.headers.get("Retry-After", "")
            if answer.status != HTTPStatus.TOO_MANY_REQUESTS or not after.isdigit():
                break
            time.sleep(min(int(after), _LONGEST_PAUSE))
            answer = self._asked(method, url, content, more)
        return Answer(answer.status, answer.data.decode(), tuple(map(_unquoted, answer.headers.getlist("Warning"))))

    def _asked(self, method: str, url: str, content: str | None, headers: Mapping[str, str]) -> BaseHTTPResponse:
        everything = {**self._access.get_headers(), **headers}
        try:
            return self._access.pool.request(
                method, url, body=content, headers=everything, timeout=_TIMES, retries=_AGAIN
            )
        except HTTPError as error:
            raise ClusterError(f"{method} {url}: {error}") from error

    def get(self, path: str, **query: str) -> Object:
        """An object, or a list of objects.

        Raises:
            ClusterError: there is none, or it may not be read.
        """
        return self.ask("GET", path, query=query).object()

    def find(self, path: str) -> Object | None:
        """An object, if it is there.

        Raises:
            ClusterError: it may not be read.
        """
        answer = self.ask("GET", path)
        return None if answer.status == HTTPStatus.NOT_FOUND else answer.object()

    def items(self, path: str, **query: str) -> list[Object]:
        """The objects of a list, as of these selectors (`labelSelector`, `fieldSelector`).

        Raises:
            ClusterError: they may not be read.
        """
        found: list[Object] = self.get(path, **query)["items"]
        return found

    def collection(self, made: Mapping[str, Any], namespace: str) -> str:
        """The path of all objects of this one's kind, within the namespace where it is of a kind that is in one.

        Raises:
            ClusterError: there is no such version of its API.
            KeyError: that version has no such kind.
        """
        version, kind = made["apiVersion"], made["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if root not in self._kinds:
            self._kinds[root] = {each["kind"]: each for each in self.get(root)["resources"] if "/" not in each["name"]}
        found = self._kinds[root][kind]
        return f"{root}/{f'namespaces/{namespace}/' if found['namespaced'] else ''}{found['name']}"

    def create(self, path: str, made: Mapping[str, Any]) -> Object:
        """Create an object in the collection of this path.

        Raises:
            ClusterError: it is refused.
        """
        return self.ask("POST", path, made).object()

    def patch(self, path: str, patch: object, kind: str = MERGE) -> Object:
        """Change an object.

        Raises:
            ClusterError: that is refused.
        """
        return self.ask("PATCH", path, patch, kind=kind).object()

    def apply(self, path: str, wanted: Mapping[str, Any]) -> Object:
        """Let an object be as it is wanted, whoever owns its fields, as kubectl does by server-side apply.

        Raises:
            ClusterError: that is refused.
        """
        query = {"fieldManager": "kubectl", "force": "true"}
        return self.ask("PATCH", path, wanted, kind=_APPLY, query=query).object()

    def delete(self, path: str, **query: str) -> None:
        """Let an object go, or the objects of a collection, which are there or not.

        Raises:
            ClusterError: that is refused.
        """
        answer = self.ask("DELETE", path, query=query)
        if answer.status != HTTPStatus.NOT_FOUND:
            answer.object()


def _unquoted(warning: str) -> str:
    """The text of a `Warning: 299 - "text"` (k8s.io/apimachinery, pkg/util/net/http.go, v1.36)."""
    text = warning.partition('"')[2].rpartition('"')[0]
    return re.sub(r"\\(.)", r"\1", text).encode("latin-1").decode()


@cache
def api(kubeconfig: Path) -> Api:
    """The API as the user of a kubeconfig, which is not written anew meanwhile.

    Raises:
        ClientConfigError: the kubeconfig leads to no cluster.
    """
    return Api(kubeconfig)
