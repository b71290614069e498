"""The ConfigMap with which users find the server of asks: its address, and the CAs of its certificate.

The installation creates it without data. The gate fills it in, as it does with `caBundle` of its registration: the
server of asks itself has no right to write.
"""

from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from tallygate.kube.client import OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.kube.resource_codec import create_response_error
from tallygate.state.ports import StoreUnavailableError

ASK_NAME: Final = "tallygate-ask"
"""The name of the ConfigMap, and of the Service of asks, in the gate's namespace."""

URL_KEY: Final = "url"
CA_KEY: Final = "ca.crt"
_TIMEOUT_SECONDS: Final = 5.0


class AskAddress(NamedTuple):
    """The URL of a server of asks, and the CAs that sign its certificate, in PEM; "" where it is not known."""

    url: str
    ca_bundle: str


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


class AskAddressStore:
    """The ConfigMap in a namespace of a cluster."""

    def __init__(self, client_config: ClientConfig, namespace: str) -> None:
        self._client = ApiClient(client_config, OBJECT_LIMITS, "tallygate-ask-address")
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{ASK_NAME}"

    def read(self) -> AskAddress:
        """Return the stored address.

        Raises:
            ApiError, StoreUnavailableError: if it cannot be read.
        """
        response = self._client.get(self._path, timeout=_TIMEOUT_SECONDS)
        if response.status != HTTPStatus.OK:
            raise create_response_error(response)
        try:
            data = msgspec.json.decode(response.body, type=_ConfigMap).data or {}
        except (ValueError, RecursionError) as error:
            raise StoreUnavailableError(f"the API server's answer is no ConfigMap: {error}") from None
        return AskAddress(data.get(URL_KEY, ""), data.get(CA_KEY, ""))

    def write(self, address: AskAddress) -> None:
        """Write the address into the ConfigMap, which must exist; its other fields stay.

        Raises:
            ApiError: if it is not written, or if that is unknown.
        """
        body = msgspec.json.encode({"data": {URL_KEY: address.url, CA_KEY: address.ca_bundle}})
        response = self._client.patch(self._path, body, content_type="application/merge-patch+json")
        if response.status != HTTPStatus.OK:
            raise create_response_error(response)

    def close(self) -> None:
        """Break a request in progress; later ones fail."""
        self._client.close()
