"""Reports in a cluster: one for each namespace in which something is wrong, written only where that has changed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import msgspec

from webhook.audit.kept import Kept
from webhook.audit.pages import AuditError, Wait
from webhook.audit.report import APIS, DIGEST, MANAGED_BY, NAME, Api, Content, body, content, key_of
from webhook.errors import TallygateError
from webhook.state.exchange import Answer
from webhook.state.kubernetes.calls import Access, Caller, Request
from webhook.state.ports import StoreUnavailableError

_JSON: Final = "application/json"
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PATIENCE: Final = 15.0
_PAUSES: Final = (1.0, 4.0, 15.0)
_PAGE: Final = 500
_MOST_TOLD: Final = 500  # characters of a server's answer
_MOST_FAILURES: Final = 5
_SELECTOR: Final = quote("=".join(MANAGED_BY), safe="")
_BEING_DELETED: Final = "being terminated"

NONE_INSTALLED: Final = (
    "no reports are written: the cluster has no CustomResourceDefinition of them; install that of "
    + " or ".join(f"{api.plural}.{api.group}/{api.version}" for api in APIS)
)


class ReportsError(TallygateError):
    """Reports cannot be written."""


class _Metadata(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None
    continue_: str = msgspec.field(name="continue", default="")


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _List(msgspec.Struct, frozen=True):
    metadata: _Metadata
    items: list[_Object] | None = None


class _Report(msgspec.Struct, frozen=True):
    metadata: _Metadata
    results: list[dict[str, object]] | None = None


class _Refusal(msgspec.Struct, frozen=True):
    message: str = ""


_LIST, _REPORT = msgspec.json.Decoder(_List), msgspec.json.Decoder(_Report)
_REFUSAL = msgspec.json.Decoder(_Refusal)


@dataclass(slots=True)
class Written:
    """What became of reports; `failures` are sentences, the first few of `failed`."""

    api: str = ""
    written: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)

    def fail(self, sentence: str) -> None:
        """One could not be written."""
        self.failed += 1
        if len(self.failures) < _MOST_FAILURES:
            self.failures.append(sentence)


class Reports:
    """The reports of one cluster; `now` gives Unix time, and `between` is how many seconds lie between two writes."""

    def __init__(self, access: Access, now: Callable[[], float], wait: Wait, between: float = 0.0) -> None:
        self._caller = Caller(access)
        self._now = now
        self._wait = wait
        self._between = between

    def installed(self) -> Api | None:
        """The API that the cluster has, the newer one where it has both.

        Raises:
            ReportsError: that cannot be found out.
        """
        for api in APIS:
            answer = self._call(Request("GET", api.path, _JSON))
            if answer.status == HTTPStatus.OK:
                return api
            if answer.status != HTTPStatus.NOT_FOUND:
                raise ReportsError(f"whether {api.name} is installed cannot be found out: {_said(answer)}")
        return None

    def bring(self, api: Api, kept: Kept, only: frozenset[str] | None) -> Written:
        """Let the reports say what was found, in these namespaces, or everywhere (None).

        Where nothing is found any more, the report is removed.

        Raises:
            ReportsError: it cannot be read what is there.
        """
        done = Written(api.name)
        wanted = {home for home in kept.homes() if only is None or home in only}
        for place in [None] if only is None else sorted(only):
            for there in self._there(api, place):
                self._mend(api, there, kept, done)
                wanted.discard(there.namespace)
        if only is None:
            for there in self._there(api, ""):
                self._mend(api, there, kept, done)
                wanted.discard("")
        for home in sorted(wanted):
            said = content(kept.of(home), kept.counts(home))
            self._create(api, home, said, done)
        return done

    def _there(self, api: Api, namespace: str | None) -> Iterator[_Metadata]:
        """Those that are ours: of one namespace, of all (None), or the cluster's own (empty)."""
        more = ""
        while True:
            query = f"?labelSelector={_SELECTOR}&limit={_PAGE}" + (f"&continue={quote(more, safe='')}" if more else "")
            answer = self._call(Request("GET", _collection(api, namespace) + query, _METADATA))
            if answer.status != HTTPStatus.OK:
                raise ReportsError(f"reports ({api.name}) cannot be listed: {_said(answer)}{_right(answer, 'list')}")
            try:
                page = _LIST.decode(answer.body)
            except (ValueError, RecursionError) as error:
                raise ReportsError(f"reports ({api.name}) cannot be listed: no list came: {error}") from None
            yield from (each.metadata for each in page.items or () if each.metadata.name == NAME)
            if not page.metadata.continue_ or page.metadata.continue_ == more:
                return
            more = page.metadata.continue_

    def _mend(self, api: Api, there: _Metadata, kept: Kept, done: Written) -> None:
        home = there.namespace
        counts = kept.counts(home)
        if not counts:
            self._remove(api, there, done)
            return
        said = content(kept.of(home), counts)
        if (there.annotations or {}).get(DIGEST) == said.digest:
            done.unchanged += 1
            return
        self._replace(api, home, said, done)

    def _replace(self, api: Api, home: str, said: Content, done: Written) -> None:
        """Write it anew, if it is still as it was read: whoever has changed it meanwhile has judged later."""
        path = f"{_collection(api, home)}/{NAME}"
        answer = self._call(Request("GET", path, _JSON))
        if answer.status == HTTPStatus.OK:
            try:
                before = _REPORT.decode(answer.body)
            except (ValueError, RecursionError) as error:
                done.fail(f"{_called(api, home)} cannot be read: {error}")
                return
            times = {key_of(result): result.get("timestamp") for result in before.results or ()}
            made = body(api, home, said, times, int(self._now()))
            made["metadata"]["resourceVersion"] = before.metadata.resource_version
            self._wait(self._between)
            answer = self._call(Request("PUT", path, _JSON, _ENCODER.encode(made)))
        self._count(answer, _called(api, home), "update", done)

    def _create(self, api: Api, home: str, said: Content, done: Written) -> None:
        self._wait(self._between)
        made = _ENCODER.encode(body(api, home, said, {}, int(self._now())))
        answer = self._call(Request("POST", _collection(api, home), _JSON, made))
        if answer.status == HTTPStatus.CONFLICT:
            label = "=".join(MANAGED_BY)
            done.fail(f"{_called(api, home)} is somebody else's: it lacks the label {label}; delete or rename it")
            return
        self._count(answer, _called(api, home), "create", done)

    def _remove(self, api: Api, there: _Metadata, done: Written) -> None:
        self._wait(self._between)
        options = _ENCODER.encode({"preconditions": {"resourceVersion": there.resource_version}})
        path = f"{_collection(api, there.namespace)}/{NAME}"
        answer = self._call(Request("DELETE", path, _JSON, options))
        if answer.status in (HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND):
            done.removed += 1
            return
        self._count(answer, _called(api, there.namespace), "delete", done)

    def _count(self, answer: Answer, called: str, verb: str, done: Written) -> None:
        """What came of a write; a namespace that goes takes its report along, and needs none."""
        said = _said(answer)
        if answer.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            done.written += 1
        elif answer.status != HTTPStatus.NOT_FOUND and _BEING_DELETED not in said:
            done.fail(f"{called}: {verb}: {said}{_right(answer, verb)}")

    def _call(self, request: Request) -> Answer:
        """An answer; an API server that is busy is waited for, as it is while it takes up a new definition."""
        try:
            for pause in _PAUSES:
                answer = self._caller.call(request, _PATIENCE)
                if answer.status != HTTPStatus.TOO_MANY_REQUESTS:
                    return answer
                self._wait(pause)
            return self._caller.call(request, _PATIENCE)
        except StoreUnavailableError as error:
            raise ReportsError(f"reports: {error}") from error


def wanted_api(reports: Reports) -> Api:
    """The API to write by.

    Raises:
        AuditError: the cluster has none.
    """
    api = reports.installed()
    if api is None:
        raise AuditError(NONE_INSTALLED)
    return api


def _collection(api: Api, namespace: str | None) -> str:
    """Where reports lie: those of one namespace, of all of them (None), or the cluster's own (empty)."""
    if namespace is None:
        return f"{api.path}/{api.plural}"
    return f"{api.path}/namespaces/{namespace}/{api.plural}" if namespace else f"{api.path}/cluster{api.plural}"


def _called(api: Api, namespace: str) -> str:
    return f"{api.kind} {namespace}/{NAME}" if namespace else f"Cluster{api.kind} {NAME}"


def _said(answer: Answer) -> str:
    try:
        message = _REFUSAL.decode(answer.body).message
    except (ValueError, RecursionError):
        message = answer.body.decode(errors="replace")
    return f"the API server says {answer.status}: {message[:_MOST_TOLD]}"


def _right(answer: Answer, verb: str) -> str:
    return f"; the audit must be allowed to {verb} it" if answer.status == HTTPStatus.FORBIDDEN else ""


_ENCODER = msgspec.json.Encoder()
