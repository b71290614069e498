"""The policy reports of a cluster: one for each namespace with findings, written only if its content has changed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec

from tallygate.audit import policy_report
from tallygate.audit.audit_findings import AuditFindings
from tallygate.audit.listing import AuditError
from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import METADATA_LIST, OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.kube.pagination import WaitFunction, list_raw_pages
from tallygate.kube.transport import Response

_TIMEOUT_SECONDS: Final = 15.0
_RETRY_PAUSES: Final = (1.0, 4.0, 15.0)
_PAGE_SIZE: Final = 500
_MAX_MESSAGE_LENGTH: Final = 500  # characters of a message of the API server
_MAX_FAILURES: Final = 5
_LABEL_SELECTOR: Final = "=".join(policy_report.MANAGED_BY_LABEL)
_NAMESPACE_TERMINATING: Final = "being terminated"

NO_REPORT_API: Final = (
    "no reports are written: the cluster has no CustomResourceDefinition of them; install that of "
    + " or ".join(f"{api.plural}.{api.group}/{api.version}" for api in policy_report.REPORT_APIS)
)


class ReportsError(TallygateError):
    """A failure that prevents the writing of all reports."""


class _ReportMetadata(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _ReportObject(msgspec.Struct, frozen=True):
    metadata: _ReportMetadata = _ReportMetadata()


class _StoredReport(msgspec.Struct, frozen=True):
    metadata: _ReportMetadata
    results: list[dict[str, object]] | None = None


class _ErrorStatus(msgspec.Struct, frozen=True):
    message: str = ""


_OBJECT_DECODER, _REPORT_DECODER = msgspec.json.Decoder(_ReportObject), msgspec.json.Decoder(_StoredReport)
_ERROR_DECODER = msgspec.json.Decoder(_ErrorStatus)
_WRITE_ENCODER = msgspec.json.Encoder()


@dataclass(slots=True)
class ReportCounts:
    """The numbers of reports by result; `failures` has the messages of the first few that `failed` counts."""

    api: str = ""
    written: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)

    def add_failure(self, message: str) -> None:
        """Count a report that could not be written, and keep its message if fewer than five are kept."""
        self.failed += 1
        if len(self.failures) < _MAX_FAILURES:
            self.failures.append(message)


class ReportWriter:
    """A writer of the reports of one cluster.

    `now` returns Unix time; `write_interval` is the pause before each write, in seconds.
    """

    def __init__(
        self, client_config: ClientConfig, now: Callable[[], float], wait: WaitFunction, write_interval: float = 0.0
    ) -> None:
        self._client = ApiClient(client_config, OBJECT_LIMITS)
        self._now = now
        self._wait = wait
        self._write_interval = write_interval

    def find_api(self) -> policy_report.ReportApi | None:
        """Return the report API of the cluster, the newer one if it has both, None if it has neither.

        Raises:
            ReportsError: if the API server cannot be reached or returns another error.
        """
        for api in policy_report.REPORT_APIS:
            response = self._call_with_retry(partial(self._client.get, api.path))
            if response.status == HTTPStatus.OK:
                return api
            if response.status != HTTPStatus.NOT_FOUND:
                raise ReportsError(
                    f"whether {api.name} is installed cannot be found out: {_describe_response(response)}"
                )
        return None

    def write_reports(
        self, api: policy_report.ReportApi, findings: AuditFindings, namespaces: frozenset[str] | None
    ) -> ReportCounts:
        """Write the findings of the given namespaces, or of all (None), into their reports.

        Delete the reports of namespaces without findings.

        Raises:
            ReportsError: if the existing reports cannot be listed or the API server cannot be reached.
        """
        counts = ReportCounts(api.name)
        missing = {name for name in findings.list_namespaces() if namespaces is None or name in namespaces}
        for namespace in [None] if namespaces is None else sorted(namespaces):
            for metadata in self._list_reports(api, namespace):
                self._update_report(api, metadata, findings, counts)
                missing.discard(metadata.namespace)
        if namespaces is None:
            for metadata in self._list_reports(api, ""):
                self._update_report(api, metadata, findings, counts)
                missing.discard("")
        for report_namespace in sorted(missing):
            content = policy_report.create_content(
                findings.list_findings(report_namespace), findings.count_by_enforcement(report_namespace)
            )
            self._create_report(api, report_namespace, content, counts)
        return counts

    def _list_reports(self, api: policy_report.ReportApi, namespace: str | None) -> Iterator[_ReportMetadata]:
        """Yield the metadata of tallygate's reports: of one namespace, of all (None), or cluster-scoped (empty)."""
        path, get = _create_collection_path(api, namespace), partial(self._client.get, accept=METADATA_LIST)
        try:
            for page in list_raw_pages(get, path, _PAGE_SIZE, self._wait, {"labelSelector": _LABEL_SELECTOR}):
                reports = (_OBJECT_DECODER.decode(item).metadata for item in page)
                yield from (report for report in reports if report.name == policy_report.REPORT_NAME)
        except ApiError as error:
            permission = "; the audit must be allowed to list it" * (error.reason is ApiErrorReason.FORBIDDEN)
            raise ReportsError(f"reports ({api.name}) cannot be listed: {error}{permission}") from error
        except (ValueError, RecursionError) as error:
            raise ReportsError(f"reports ({api.name}) cannot be listed: no list came: {error}") from None

    def _update_report(
        self,
        api: policy_report.ReportApi,
        metadata: _ReportMetadata,
        findings: AuditFindings,
        report_counts: ReportCounts,
    ) -> None:
        namespace = metadata.namespace
        counts = findings.count_by_enforcement(namespace)
        if not counts:
            self._delete_report(api, metadata, report_counts)
            return
        content = policy_report.create_content(findings.list_findings(namespace), counts)
        if (metadata.annotations or {}).get(policy_report.DIGEST_ANNOTATION) == content.digest:
            report_counts.unchanged += 1
            return
        self._replace_report(api, namespace, content, report_counts)

    def _replace_report(
        self,
        api: policy_report.ReportApi,
        namespace: str,
        content: policy_report.ReportContent,
        report_counts: ReportCounts,
    ) -> None:
        """Replace a report at the revision that was read: a writer that has changed it since evaluated later."""
        path = f"{_create_collection_path(api, namespace)}/{policy_report.REPORT_NAME}"
        response = self._call_with_retry(partial(self._client.get, path))
        if response.status == HTTPStatus.OK:
            try:
                stored = _REPORT_DECODER.decode(response.body)
            except (ValueError, RecursionError) as error:
                report_counts.add_failure(f"{_describe_report(api, namespace)} cannot be read: {error}")
                return
            timestamps = {
                policy_report.create_result_key(result): result.get("timestamp") for result in stored.results or ()
            }
            report = policy_report.create_report(api, namespace, content, timestamps, int(self._now()))
            report["metadata"]["resourceVersion"] = stored.metadata.resource_version
            self._wait(self._write_interval)
            response = self._call_with_retry(partial(self._client.replace, path, _WRITE_ENCODER.encode(report)))
        self._count_response(response, _describe_report(api, namespace), "update", report_counts)

    def _create_report(
        self,
        api: policy_report.ReportApi,
        namespace: str,
        content: policy_report.ReportContent,
        report_counts: ReportCounts,
    ) -> None:
        self._wait(self._write_interval)
        encoded = _WRITE_ENCODER.encode(policy_report.create_report(api, namespace, content, {}, int(self._now())))
        response = self._call_with_retry(partial(self._client.create, _create_collection_path(api, namespace), encoded))
        if response.status == HTTPStatus.CONFLICT:
            label = "=".join(policy_report.MANAGED_BY_LABEL)
            report_counts.add_failure(
                f"{_describe_report(api, namespace)} belongs to another tool: it lacks the label "
                f"{label}; delete or rename it"
            )
            return
        self._count_response(response, _describe_report(api, namespace), "create", report_counts)

    def _delete_report(
        self, api: policy_report.ReportApi, metadata: _ReportMetadata, report_counts: ReportCounts
    ) -> None:
        self._wait(self._write_interval)
        options = _WRITE_ENCODER.encode({"preconditions": {"resourceVersion": metadata.resource_version}})
        path = f"{_create_collection_path(api, metadata.namespace)}/{policy_report.REPORT_NAME}"
        response = self._call_with_retry(partial(self._client.delete, path, options))
        if response.status in (HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND):
            report_counts.removed += 1
            return
        self._count_response(response, _describe_report(api, metadata.namespace), "delete", report_counts)

    def _count_response(self, response: Response, report_text: str, verb: str, report_counts: ReportCounts) -> None:
        """Count the result of a write; a namespace that is being deleted needs no report."""
        message = _describe_response(response)
        if response.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            report_counts.written += 1
        elif response.status != HTTPStatus.NOT_FOUND and _NAMESPACE_TERMINATING not in message:
            report_counts.add_failure(f"{report_text}: {verb}: {message}{_describe_permission(response, verb)}")

    def _call_with_retry(self, send: Callable[..., Response]) -> Response:
        """Return a response, after retries while the API server answers 429, as it does for a new definition."""
        try:
            for pause in _RETRY_PAUSES:
                response = send(timeout=_TIMEOUT_SECONDS)
                if response.status != HTTPStatus.TOO_MANY_REQUESTS:
                    return response
                self._wait(pause)
            return send(timeout=_TIMEOUT_SECONDS)
        except ApiError as error:
            raise ReportsError(f"reports: {error}") from error


def require_api(reports: ReportWriter) -> policy_report.ReportApi:
    """Return the report API of a cluster.

    Raises:
        AuditError: if the cluster has no report API.
    """
    api = reports.find_api()
    if api is None:
        raise AuditError(NO_REPORT_API)
    return api


def _create_collection_path(api: policy_report.ReportApi, namespace: str | None) -> str:
    """Return the path of the reports of one namespace, of all (None), or of the cluster-scoped ones (empty)."""
    if namespace is None:
        return f"{api.path}/{api.plural}"
    return f"{api.path}/namespaces/{namespace}/{api.plural}" if namespace else f"{api.path}/cluster{api.plural}"


def _describe_report(api: policy_report.ReportApi, namespace: str) -> str:
    return (
        f"{api.kind} {namespace}/{policy_report.REPORT_NAME}"
        if namespace
        else f"Cluster{api.kind} {policy_report.REPORT_NAME}"
    )


def _describe_response(response: Response) -> str:
    try:
        message = _ERROR_DECODER.decode(response.body).message
    except (ValueError, RecursionError):
        message = response.body.decode(errors="replace")
    return f"the API server says {response.status}: {message[:_MAX_MESSAGE_LENGTH]}"


def _describe_permission(response: Response, verb: str) -> str:
    return f"; the audit must be allowed to {verb} it" if response.status == HTTPStatus.FORBIDDEN else ""
