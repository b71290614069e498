"""The CAs of the cluster's users: the ConfigMap in which the API server publishes its `--client-ca-file`.

The API server writes it (k8s.io/kubernetes pkg/controlplane/controller/clusterauthenticationtrust, v1.36), and the Role
`extension-apiserver-authentication-reader` of kube-system lets extension servers read it.
"""

from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec

from tallygate.kube.client import OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.kube.resource_codec import create_response_error
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask
from tallygate.state.ports import StoreUnavailableError

_PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_KEY: Final = "client-ca-file"
_INTERVAL_SECONDS: Final = 60.0
_TIMEOUT_SECONDS: Final = 5.0
_JITTER: Final = 0.2


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


class UserAuthorities:
    """The CAs, read again every minute. What was read last stays while the ConfigMap cannot be read."""

    def __init__(self, client_config: ClientConfig, log: Logger) -> None:
        self._client = ApiClient(client_config, OBJECT_LIMITS, "tallygate-user-authorities")
        self._bundle = b""
        failure_log = FailureLog(
            partial(log.warning, "user-authorities-unknown"), partial(log.info, "user-authorities-known")
        )
        task = WorkerTask(
            name="user-authorities",
            run=self._read,
            failure_log=failure_log,
            describe=lambda: {"known": bool(self._bundle)},
            interrupt=self._client.close,
        )
        self.worker = Worker(task, WorkerPace(interval=lambda: _INTERVAL_SECONDS, jitter=_JITTER))

    def get_bundle(self) -> bytes:
        """Return the CAs in PEM; b"" if they are not known, or there are none: then no client has a certificate."""
        return self._bundle

    def _read(self) -> bool:
        """Read the ConfigMap.

        Raises:
            TallygateError: if it cannot be read; the text says why.
        """
        response = self._client.get(_PATH, timeout=_TIMEOUT_SECONDS)
        if response.status != HTTPStatus.OK:
            raise create_response_error(response)
        try:
            data = msgspec.json.decode(response.body, type=_ConfigMap).data or {}
        except (ValueError, RecursionError) as error:
            raise StoreUnavailableError(f"the API server's answer is no ConfigMap: {error}") from None
        self._bundle = data.get(_KEY, "").encode("utf-8")
        return True
