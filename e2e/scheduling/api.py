"""Objects in and out of the API server: created by several hands at once, listed, deleted, and one pod followed."""

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPSConnection
from threading import local
from typing import Any
from urllib.parse import quote

from e2e.bench.client import Access
from e2e.errors import ClusterError

Object = dict[str, Any]
"""A Kubernetes object, as JSON."""

_HANDS = 6
_WITHIN = 30.0  # seconds for an answer
_TRIES = 3  # watches of one pod
_GROUPS = {
    "Namespace": "api/v1/namespaces",
    "Node": "api/v1/nodes",
    "Pod": "api/v1/pods",
    "Deployment": "apis/apps/v1/deployments",
    "ReplicaSet": "apis/apps/v1/replicasets",
    "PersistentVolume": "api/v1/persistentvolumes",
    "PersistentVolumeClaim": "api/v1/persistentvolumeclaims",
    "StorageClass": "apis/storage.k8s.io/v1/storageclasses",
    "CSINode": "apis/storage.k8s.io/v1/csinodes",
    "CSIDriver": "apis/storage.k8s.io/v1/csidrivers",
    "CSIStorageCapacity": "apis/storage.k8s.io/v1/csistoragecapacities",
    "VolumeAttachment": "apis/storage.k8s.io/v1/volumeattachments",
    "PodDisruptionBudget": "apis/policy/v1/poddisruptionbudgets",
    "PriorityClass": "apis/scheduling.k8s.io/v1/priorityclasses",
    "RuntimeClass": "apis/node.k8s.io/v1/runtimeclasses",
}
_MADE_BY_STATUS = frozenset({"Pod", "PersistentVolumeClaim", "PersistentVolume", "PodDisruptionBudget"})
"""Whose status a create drops; a Node keeps its own."""


class RefusedError(Exception):
    """The API server did not do it; the text is its message."""


class Api:
    """The API server, as an administrator; any thread may use it."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._own = local()
        self._kept: list[HTTPSConnection] = []
        self._hands = ThreadPoolExecutor(_HANDS)

    def close(self) -> None:
        """Let the hands go, and hang up."""
        self._hands.shutdown(cancel_futures=True)
        for connection in self._kept:
            connection.close()

    def make_all(self, objects: Iterable[Object]) -> list[Object | RefusedError]:
        """Create them, several at a time, and write their status; what is stored, or why not, in their order."""
        return list(self._hands.map(self._made_or_not, objects))

    def make(self, made: Object) -> Object:
        """Create it, and write its status; as it is stored.

        Raises:
            RefusedError: the API server does not take it.
        """
        stored = self._ask("POST", _folder(made), made)
        if made["kind"] in _MADE_BY_STATUS and "status" in made:
            stored["status"] = stored.get("status", {}) | made["status"]
            stored = self._ask("PUT", f"{_path(stored)}/status", stored)
        return stored

    def try_out(self, made: Object) -> None:
        """See whether it would be created.

        Raises:
            RefusedError: the API server would not take it.
        """
        self._ask("POST", f"{_folder(made)}?dryRun=All", made)

    def put(self, changed: Object) -> Object:
        """Let the object be as this; as it is stored.

        Raises:
            RefusedError: the API server does not take it.
        """
        return self._ask("PUT", _path(changed), changed)

    def delete(self, gone: Object, seconds: int = 0) -> None:
        """Delete it; pods get so many seconds of grace."""
        self._ask("DELETE", _path(gone), {"gracePeriodSeconds": seconds})

    def clear(self, kind: str, namespaces: Iterable[str] = (), labels: str = "") -> None:
        """Delete all of a kind with these labels, in these namespaces if it has one; it is gone when this returns."""
        within = [_folder({"kind": kind, "metadata": {"namespace": each}}) for each in namespaces]
        for folder in within or [_GROUPS[kind]]:
            self._ask("DELETE", f"{folder}?labelSelector={quote(labels)}", {"gracePeriodSeconds": 0})

    def listed(self, kind: str, labels: str = "") -> list[Object]:
        """All of a kind with these labels, by name, each whole in itself."""
        said = self._ask("GET", f"{_GROUPS[kind]}?labelSelector={quote(labels)}")
        whole = {"kind": kind, "apiVersion": said["apiVersion"]}
        return [without_noise(whole | each) for each in said["items"]]

    def changes(self, pod: Object) -> Iterator[Object]:
        """What becomes of a pod after this, in order, without an end.

        Raises:
            ClusterError: nothing comes in time, or the API server breaks the watch off again and again.
        """
        broken: list[str] = []
        while len(broken) < _TRIES:
            for change in self._watched(pod):
                if change["type"] == "ERROR":
                    # One that the API server could not read from etcd, say: what it was stands in the pod.
                    broken.append(json.dumps(change["object"]))
                    pod = self._ask("GET", _path(pod))
                    yield pod
                    break
                yield change["object"]
            else:
                raise ClusterError(f"nothing became of the pod in {_WITHIN:.0f} s: {json.dumps(pod)}")
        raise ClusterError(f"the watch of the pod broke off: {broken}")

    def _watched(self, pod: Object) -> Iterator[Object]:
        query = f"watch=1&resourceVersion={pod['metadata']['resourceVersion']}&timeoutSeconds={_WITHIN:.0f}"
        path = f"{_folder(pod)}?{query}&fieldSelector=metadata.name%3D{pod['metadata']['name']}"
        with closing(self._connection()) as connection:
            connection.request("GET", f"/{path}")
            yield from map(json.loads, connection.getresponse())

    def _made_or_not(self, made: Object) -> Object | RefusedError:
        try:
            return self.make(made)
        except RefusedError as error:
            return error

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Object:
        if not hasattr(self._own, "connection"):
            self._own.connection = self._connection()
            self._kept.append(self._own.connection)
        connection: HTTPSConnection = self._own.connection
        connection.request(method, f"/{path}", json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said: Object = json.loads(answer.read())
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise RefusedError(f"{method} {path}: {said.get('message')}")
        return said

    def _connection(self) -> HTTPSConnection:
        return HTTPSConnection(self._access.host, self._access.port, timeout=_WITHIN, context=self._access.trust)


def _folder(it: Object) -> str:
    group, _, plural = _GROUPS[it["kind"]].rpartition("/")
    namespace = it["metadata"].get("namespace")
    return f"{group}/namespaces/{namespace}/{plural}" if namespace else f"{group}/{plural}"


def _path(it: Object) -> str:
    return f"{_folder(it)}/{it['metadata']['name']}"


def without_noise(it: Object) -> Object:
    """It, without who wrote which field."""
    it["metadata"].pop("managedFields", None)
    return it
