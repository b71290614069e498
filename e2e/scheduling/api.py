"""A client of the API server for cases: several creates at once, lists, deletions, and the watch of one pod."""

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http import HTTPStatus
from http.client import HTTPSConnection
from threading import local
from typing import Any
from urllib.parse import quote

from e2e.bench.client import Access
from e2e.errors import ClusterError

Object = dict[str, Any]
"""A Kubernetes object, as JSON."""

_THREADS = 6
_WITHIN = 30.0  # seconds for a response
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
    "PodGroup": "apis/scheduling.k8s.io/v1beta1/podgroups",
    "PriorityClass": "apis/scheduling.k8s.io/v1/priorityclasses",
    "DeviceClass": "apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "apis/resource.k8s.io/v1/resourceslices",
    "DeviceTaintRule": "apis/resource.k8s.io/v1/devicetaintrules",
    "ResourceClaim": "apis/resource.k8s.io/v1/resourceclaims",
    "ResourceClaimTemplate": "apis/resource.k8s.io/v1/resourceclaimtemplates",
    "RuntimeClass": "apis/node.k8s.io/v1/runtimeclasses",
}
_WITH_STATUS_SUBRESOURCE = frozenset(
    {"Pod", "PersistentVolumeClaim", "PersistentVolume", "PodDisruptionBudget", "ResourceClaim"}
)
"""Kinds whose status a create drops; a Node keeps its status."""


class RejectedError(Exception):
    """A request that the API server rejected; the text is its message."""


class _UnservedError(RejectedError):
    """A request for a path that the API server does not have, such as that of a kind of a newer version."""


class Api:
    """A client of the API server with the rights of an administrator; any thread may use it."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._own = local()
        self._connections: list[HTTPSConnection] = []
        self._threads = ThreadPoolExecutor(_THREADS)

    def close(self) -> None:
        """Stop the threads and close the connections."""
        self._threads.shutdown(cancel_futures=True)
        for connection in self._connections:
            connection.close()

    def make_all(self, objects: Iterable[Object]) -> list[Object | RejectedError]:
        """Create objects with status, several at a time; return stored objects or errors in the same order."""
        return list(self._threads.map(self._try_make, objects))

    def make(self, made: Object) -> Object:
        """Create an object with its status, and return the stored object.

        Raises:
            RejectedError: if the API server rejects the object.
        """
        stored = self._ask("POST", _folder(made), made)
        if made["kind"] in _WITH_STATUS_SUBRESOURCE and "status" in made:
            stored["status"] = stored.get("status", {}) | made["status"]
            stored = self.put_status(stored)
        return stored

    def try_out(self, made: Object) -> None:
        """Create an object by dry run.

        Raises:
            RejectedError: if the API server would reject the object.
        """
        self._ask("POST", f"{_folder(made)}?dryRun=All", made)

    def put(self, changed: Object) -> Object:
        """Replace an object, and return the stored object.

        Raises:
            RejectedError: if the API server rejects the object.
        """
        return self._ask("PUT", _path(changed), changed)

    def put_status(self, changed: Object) -> Object:
        """Replace the status of an object, and return the stored object.

        Raises:
            RejectedError: if the API server rejects the object.
        """
        return self._ask("PUT", f"{_path(changed)}/status", changed)

    def get(self, known: Object) -> Object:
        """Return an object as it is stored now."""
        return self._ask("GET", _path(known))

    def delete(self, deleted: Object, seconds: int = 0) -> None:
        """Delete an object; `seconds` is the grace period of pods."""
        self._ask("DELETE", _path(deleted), {"gracePeriodSeconds": seconds})

    def clear(self, kind: str, namespaces: Iterable[str] = (), labels: str = "") -> None:
        """Delete all objects of a kind with these labels, of a namespaced kind in these namespaces.

        A kind that the API server does not serve has no objects.
        """
        within = [_folder({"kind": kind, "metadata": {"namespace": each}}) for each in namespaces]
        for folder in within or [_GROUPS[kind]]:
            with suppress(_UnservedError):
                self._ask("DELETE", f"{folder}?labelSelector={quote(labels)}", {"gracePeriodSeconds": 0})

    def list_objects(self, kind: str, labels: str = "") -> list[Object]:
        """Return all objects of a kind with these labels, by name, with `kind` and `apiVersion`.

        A kind that the API server does not serve has no objects.
        """
        try:
            answered = self._ask("GET", f"{_GROUPS[kind]}?labelSelector={quote(labels)}")
        except _UnservedError:
            return []
        whole = {"kind": kind, "apiVersion": answered["apiVersion"]}
        return [drop_managed_fields(whole | each) for each in answered["items"]]

    def changes(self, pod: Object) -> Iterator[Object]:
        """Yield the later states of a pod in order, without an end.

        Raises:
            ClusterError: if no change comes in time, or the watch breaks repeatedly.
        """
        broken: list[str] = []
        while len(broken) < _TRIES:
            for change in self._watch(pod):
                if change["type"] == "ERROR":
                    # For example, a state that the API server could not read from etcd: the pod itself has its result.
                    broken.append(json.dumps(change["object"]))
                    pod = self._ask("GET", _path(pod))
                    yield pod
                    break
                yield change["object"]
            else:
                raise ClusterError(f"the pod did not change in {_WITHIN:.0f} s: {json.dumps(pod)}")
        raise ClusterError(f"the watch of the pod broke: {broken}")

    def _watch(self, pod: Object) -> Iterator[Object]:
        query = f"watch=1&resourceVersion={pod['metadata']['resourceVersion']}&timeoutSeconds={_WITHIN:.0f}"
        path = f"{_folder(pod)}?{query}&fieldSelector=metadata.name%3D{pod['metadata']['name']}"
        with closing(self._connection()) as connection:
            connection.request("GET", f"/{path}")
            yield from map(json.loads, connection.getresponse())

    def _try_make(self, made: Object) -> Object | RejectedError:
        try:
            return self.make(made)
        except RejectedError as error:
            return error

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Object:
        if not hasattr(self._own, "connection"):
            self._own.connection = self._connection()
            self._connections.append(self._own.connection)
        connection: HTTPSConnection = self._own.connection
        connection.request(method, f"/{path}", json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answered: Object = json.loads(answer.read())
        if answer.status >= HTTPStatus.BAD_REQUEST:
            error = _UnservedError if answer.status == HTTPStatus.NOT_FOUND else RejectedError
            raise error(f"{method} {path}: {answered.get('message')}")
        return answered

    def _connection(self) -> HTTPSConnection:
        return HTTPSConnection(self._access.host, self._access.port, timeout=_WITHIN, context=self._access.trust)


def _folder(it: Object) -> str:
    group, _, plural = _GROUPS[it["kind"]].rpartition("/")
    namespace = it["metadata"].get("namespace")
    return f"{group}/namespaces/{namespace}/{plural}" if namespace else f"{group}/{plural}"


def _path(it: Object) -> str:
    return f"{_folder(it)}/{it['metadata']['name']}"


def drop_managed_fields(it: Object) -> Object:
    """Remove `managedFields` from an object and return it."""
    it["metadata"].pop("managedFields", None)
    return it
