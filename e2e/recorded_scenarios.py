"""The requests of a scenario with the gate's answers, and the ends of its pods, in their order.

The scenario is run as by `tallygate test`; its controllers send requests too.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from e2e.api import Object
from tallygate.cli.scenarios.api_server import ApiRequest, ApiServer, ApiServerStore, ObjectKey
from tallygate.cli.scenarios.run import run_scenario
from tallygate.cli.scenarios.scenario import RequestResult, Scenario
from tallygate.cli.scenarios.scenario_files import load_scenarios
from tests.cli.check_case import change_directory


@dataclass(frozen=True)
class RecordedRequest:
    """A request with its answer; `is_update` distinguishes an update from a create."""

    body: Object
    request: ApiRequest
    result: RequestResult
    is_update: bool


@dataclass(frozen=True)
class RecordedEnd:
    """The phase in which a pod has ended; empty if an object is deleted."""

    key: ObjectKey
    phase: str


RecordedEvent = RecordedRequest | RecordedEnd


def load_folder(folder: Path) -> list[Scenario]:
    """Return the scenarios in the files of a folder; none if one of them has mistakes on purpose."""
    with change_directory(folder):
        sources = sorted(path.name for path in Path().glob("*.yaml") if path.stem != "expected")
        loaded = load_scenarios(tuple(sources))
        return [] if loaded.findings else loaded.scenarios


def record_events(scenario: Scenario) -> list[RecordedEvent]:
    """Run a scenario to its end or to the first unexpected result, and return its events."""
    events: list[RecordedEvent] = []
    with _record(events):
        run_scenario(scenario)
    return events


@contextmanager
def _record(events: list[RecordedEvent]) -> Iterator[None]:
    create, update = ApiServer.create, ApiServer.update
    put, remove = ApiServerStore.put, ApiServerStore.remove

    def record_create(server: ApiServer, body: Object, request: ApiRequest) -> RequestResult:
        result = create(server, body, request)
        events.append(RecordedRequest(body, request, result, is_update=False))
        return result

    def record_update(server: ApiServer, body: Object, request: ApiRequest) -> RequestResult:
        result = update(server, body, request)
        events.append(RecordedRequest(body, request, result, is_update=True))
        return result

    def record_put(store: ApiServerStore, key: ObjectKey, body: Object) -> None:
        phase, former = _get_phase(body), _get_phase(store.find(key) or {})
        put(store, key, body)
        if phase != former and phase in {"Succeeded", "Failed"}:
            events.append(RecordedEnd(key, phase))

    def record_remove(store: ApiServerStore, key: ObjectKey) -> None:
        remove(store, key)
        events.append(RecordedEnd(key, ""))

    with ExitStack() as ends:
        ends.enter_context(patch.object(ApiServer, "create", record_create))
        ends.enter_context(patch.object(ApiServer, "update", record_update))
        ends.enter_context(patch.object(ApiServerStore, "put", record_put))
        ends.enter_context(patch.object(ApiServerStore, "remove", record_remove))
        yield


def _get_phase(body: Object) -> str:
    return str((body.get("status") or {}).get("phase", "")) if body.get("kind") == "Pod" else ""
