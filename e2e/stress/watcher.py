"""A watch of all objects of a kind, from which usages are counted: event by event, as etcd stored them."""

import json
from collections.abc import Sequence
from http.client import HTTPException, HTTPSConnection
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

from e2e.bench.client import Access
from e2e.stress.pod_usage import Observer
from e2e.waiting import until

PODS = "/api/v1/pods"
"""The path of all pods."""

_SILENCE = 120.0  # seconds; a bookmark comes each minute
_PAUSE = 0.2  # seconds before a watch is begun again
_TOO_OLD = 410
_OK = 200
_WITHIN = 60.0  # seconds to see what is stored


class Watcher:
    """A watch that reports every object at `path` to the observers, for as long as the `with` block runs.

    A watch that breaks is continued behind its last event, so that nothing is missed. `torn` counts how often that was
    not possible: then objects were relisted, and the events between are unknown.
    """

    def __init__(self, access: Access, observers: Sequence[Observer], path: str = PODS) -> None:
        self._access = access
        self._path = path
        self._observers = observers
        self.torn = 0
        self._revisions: dict[str, str] = {}  # by UID
        self._revision = ""
        self._over = Event()

    def __enter__(self) -> Self:
        self._list()
        Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def until_current(self) -> None:
        """Wait until every object has been seen as it is stored; nothing may be stored or deleted meanwhile.

        Raises:
            ClusterError: if it takes too long.
        """
        stored = {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in self._get_list()["items"]}
        until(f"the watch has seen all of {self._path}", lambda: self._revisions == stored, _WITHIN)

    def until_passed(self) -> None:
        """Wait until every object has been seen that is stored now; there must be later changes.

        Raises:
            ClusterError: if it takes too long.
        """
        stored = int(self._get_list()["metadata"]["resourceVersion"])
        until(f"the watch has passed {self._path} as stored", lambda: int(self._revision) >= stored, _WITHIN)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._watch()
            except (OSError, HTTPException, ValueError):  # ValueError: a line that was cut off
                self._over.wait(_PAUSE)

    def _watch(self) -> None:
        connection = self._connection()
        try:
            connection.request(
                "GET", f"{self._path}?watch=true&allowWatchBookmarks=true&resourceVersion={self._revision}"
            )
            answer = connection.getresponse()
            if answer.status != _OK:
                raise HTTPException(answer.status)
            for line in answer:
                if self._over.is_set():
                    return
                self._take(json.loads(line))
        finally:
            connection.close()

    def _take(self, event: dict[str, Any]) -> None:
        """Apply one event.

        Raises:
            HTTPException: if the watch is over.
        """
        stored = event["object"]
        match event["type"]:
            case "ERROR":
                if stored.get("code") == _TOO_OLD:
                    self.torn += 1
                    self._list()
                raise HTTPException(stored)
            case "BOOKMARK":
                pass
            case kind:
                self._see(stored, is_deleted=kind == "DELETED")
        self._revision = stored["metadata"]["resourceVersion"]

    def _see(self, stored: dict[str, Any], *, is_deleted: bool = False) -> None:
        for observer in self._observers:
            observer.see(stored, is_deleted=is_deleted)
        if is_deleted:
            self._revisions.pop(stored["metadata"]["uid"], None)
        else:
            self._revisions[stored["metadata"]["uid"]] = stored["metadata"]["resourceVersion"]

    def _list(self) -> None:
        listed = self._get_list()
        for uid in self._revisions.keys() - {each["metadata"]["uid"] for each in listed["items"]}:
            for observer in self._observers:
                observer.forget(uid)
            self._revisions.pop(uid)
        for each in listed["items"]:
            self._see(each)
        self._revision = listed["metadata"]["resourceVersion"]

    def _get_list(self) -> dict[str, Any]:
        connection = self._connection()
        try:
            connection.request("GET", self._path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != _OK:
                raise HTTPException(body)
            listed: dict[str, Any] = json.loads(body)
            return listed
        finally:
            connection.close()

    def _connection(self) -> HTTPSConnection:
        return HTTPSConnection(self._access.host, self._access.port, timeout=_SILENCE, context=self._access.trust)
