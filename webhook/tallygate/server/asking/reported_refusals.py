"""What a namespace reports about pods that are not stored: live reads of its controllers' objects and of its Events.

They are not watched, since few are ever asked for. Their reads are bounded, and kept for a while.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import msgspec

from tallygate.cluster.kinds import CREATOR_RESOURCES, EVENT, create_list_path
from tallygate.cluster.refusal_events import REJECTED, ReportedRefusals, read_refusals
from tallygate.cluster.rejected_pods import FAILED_CREATE, RejectedPodList
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ApiClient, ClientConfig, ResponseLimits
from tallygate.kube.pagination import PAGE_SIZE, list_raw_pages
from tallygate.kube.transport import Response
from tallygate.server.asking.api_reviews import CallLimit, KeptAnswers
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.rate import RateLimit
from tallygate.server.token_buckets import TokenRate

MAX_OBJECTS: Final = 2000
"""The objects of one kind in a namespace that are read; further ones are not known."""

MAX_KEPT: Final = 256
"""The namespaces whose reports are kept."""

_LIMITS: Final = ResponseLimits(2.0, 2.0, 2.0, 16 * 1024 * 1024)
_RATE: Final = TokenRate(burst=20, interval=1 / 10)
_MAX_READS: Final = 4
_SECONDS: Final = 3.0  # for all lists of one namespace


class RefusalReader:
    """The reports of namespaces, for any thread. `monotonic` returns seconds."""

    def __init__(self, client_config: ClientConfig, monotonic: Callable[[], float]) -> None:
        self._client = ApiClient(client_config, _LIMITS)
        self._kept: KeptAnswers[str, ReportedRefusals] = KeptAnswers(monotonic, MAX_KEPT)
        self._limit = CallLimit(_MAX_READS, RateLimit(_RATE, "too many namespaces", monotonic))
        self._monotonic = monotonic

    def read(self, namespace: str) -> ReportedRefusals:
        """Return what a namespace reports; `unknown` says what could not be read, and has no text of the API server."""
        try:
            return self._kept.get(namespace, lambda: self._limit.run(None, lambda: self._read(namespace)))
        except AskError:
            return ReportedRefusals(None, None, ("pods that are not stored: too many namespaces are asked about",))

    def _read(self, namespace: str) -> ReportedRefusals:
        rejected, events, problems = RejectedPodList(), list[msgspec.Raw](), dict[str, str]()
        deadline = self._monotonic() + _SECONDS
        for version, resource, kind in CREATOR_RESOURCES:
            path = create_list_path(version, resource, quote(namespace, safe=""))
            for reason in (FAILED_CREATE, REJECTED) if kind == EVENT else ("",):
                items, problem = self._list(path, reason, deadline)
                if problem:
                    problems[resource] = problem
                if reason == REJECTED:
                    events += items
                for item in items if reason != REJECTED else ():
                    rejected.add(kind, item)
        refusals = read_refusals(events, datetime.fromtimestamp(time.time(), UTC))
        return ReportedRefusals(
            tuple(rejected.list_rejected()) if len(problems) < len(CREATOR_RESOURCES) else None,
            tuple(refusals) if "events" not in problems else None,
            tuple(f"{resource} {problem}" for resource, problem in problems.items()),
        )

    def _list(self, path: str, reason: str, deadline: float) -> tuple[list[msgspec.Raw], str]:
        """Return the objects of a list, and why some of them are not known."""
        selectors = {"fieldSelector": f"reason={reason}"} if reason else None
        items = list[msgspec.Raw]()
        try:
            for page in list_raw_pages(self._get, path, PAGE_SIZE, None, selectors):
                items += page
                if len(items) >= MAX_OBJECTS:
                    return items, "are too many to be read"
                if self._monotonic() > deadline:
                    return items, "were not read in time"
        except ApiError as error:
            forbidden = error.reason is ApiErrorReason.FORBIDDEN
            return [], "may not be listed by this server" if forbidden else "cannot be listed at present"
        return items, ""

    def _get(self, path: str, query: Mapping[str, str]) -> Response:
        return self._client.get(path, query)
