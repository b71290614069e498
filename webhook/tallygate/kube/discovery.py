"""The resources that an API server serves, from aggregated discovery (k8s.io/api/apidiscovery/v2/types.go, v1.36).

One response of `/apis` has the resources of all groups. Its `ETag` makes the next request cheap: status 304 without a
body, unless a group, version or resource has changed.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import JSON, ApiClient
from tallygate.kube.resource_codec import create_response_error

_ACCEPT: Final = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_KIND: Final = "APIGroupDiscoveryList"
_STALE: Final = "Stale"
_PATH: Final = "/apis"

Served = Mapping[tuple[str, str, str], bool]
"""Group, version and plural of each served resource, and whether its objects are in namespaces."""


class _Resource(msgspec.Struct, frozen=True):
    resource: str
    scope: str = ""


class _Version(msgspec.Struct, frozen=True):
    version: str
    resources: list[_Resource] | None = None
    freshness: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Group(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    versions: list[_Version] | None = None


class _GroupList(msgspec.Struct, frozen=True):
    kind: str = ""
    items: list[_Group] | None = None


_DECODER: Final = msgspec.json.Decoder(_GroupList)


class Discovery:
    """A reader of the served resources, for one thread; it keeps the last answer with its `ETag`."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._etag = ""
        self._served: dict[tuple[str, str, str], bool] = {}

    def read(self, timeout: float | None = None) -> Served:
        """Return the resources that are served at present, except those of the core group.

        The resources of a stale version are the last known ones: the API server cannot reach the server that serves it.

        Raises:
            ApiError: if the API server does not answer, refuses, or its answer is no aggregated discovery.
        """
        response = self._client.get(_PATH, accept=_ACCEPT, etag=self._etag, timeout=timeout)
        if response.status == HTTPStatus.NOT_MODIFIED and self._etag:
            return self._served
        if response.status != HTTPStatus.OK:
            raise create_response_error(response)
        self._served = self._decode(response.body)
        self._etag = response.etag
        return self._served

    def _decode(self, body: bytes) -> dict[tuple[str, str, str], bool]:
        try:
            answer = _DECODER.decode(body)
        except (ValueError, RecursionError) as error:
            raise ApiError(ApiErrorReason.UNREADABLE, f"{_PATH} answers no discovery: {error}") from None
        if answer.kind != _KIND:
            message = f"{_PATH} answers no {_KIND}: aggregated discovery of Kubernetes 1.30 or newer is needed"
            raise ApiError(ApiErrorReason.UNREADABLE, message)
        served: dict[tuple[str, str, str], bool] = {}
        for group in answer.items or ():
            for version in group.versions or ():
                key = (group.metadata.name, version.version)
                if version.freshness == _STALE:
                    served |= {name: scope for name, scope in self._served.items() if name[:2] == key}
                served |= {
                    (*key, resource.resource): resource.scope == "Namespaced" for resource in version.resources or ()
                }
        return served
