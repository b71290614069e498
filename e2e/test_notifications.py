"""Messages of two real gates to a receiver on this machine: each event once, also after the leader is killed."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.api import api
from e2e.extra_gates import until_cap_is_active
from e2e.namespaces import new_namespace
from e2e.pods import DONGLE, pod, submit
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Site
from e2e.rolling import run_two_gates, wait_for_leader
from e2e.service import Service
from e2e.stress.replicas import Replicas
from e2e.waiting import until
from tallygate.state.kubernetes.notification_record_store import NOTIFIED_NAME
from tests.server.notify.local_receiver import LocalReceiver, run_receiver

_WITHIN = 90.0  # seconds
_LOOKS = 12.0  # seconds: two looks of the gate, and what it sends then
_HARD, _SOFT = 3, 1
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: dongles}}
spec:
  namespaces: {{include: [{namespace}]}}
  hard: {{{dongle}: {hard}}}
  soft: {{{dongle}: {soft}}}
  overrides: [{{hard: {{memory: 1Gi}}, until: {until}}}]
"""
_FILE = """\
apiVersion: tallygate.dev/v1alpha1
kind: NotifyConfig
cluster: e2e
receivers:
- name: chat
  format: slack
  urlFile: chat-url
  headersFile: headers
  events: {softLimitCrossed: {}, capFull: {for: 5s}, overrideEnds: {before: 24h}, gateDegraded: {for: 5s}}
- name: all
  urlFile: all-url
  events: {softLimitCrossed: {}, capFull: {for: 5s}, overrideEnds: {before: 24h}, gateDegraded: {for: 5s}}
"""
_TOKEN = "Bearer t0ken-of-the-receiver"  # noqa: S105  of a receiver of this test


@pytest.fixture(scope="module")
def receivers() -> Iterator[tuple[LocalReceiver, LocalReceiver]]:
    """Run the receiver of each format."""
    with run_receiver() as chat, run_receiver() as everything:
        yield chat, everything


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """Create the namespace of the gates' ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module")
def team(cluster: Cluster) -> Iterator[str]:
    """Create the namespace under the cap."""
    with new_namespace(cluster) as name:
        yield name


@pytest.fixture(scope="module")
def gates(
    site: Site,
    own: str,
    team: str,
    receivers: tuple[LocalReceiver, LocalReceiver],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Replicas]:
    """Run two gates with the receivers, and a cap with a soft limit and an override that ends within a day."""
    folder = tmp_path_factory.mktemp("notify")
    file = folder / "notify.yaml"
    file.write_text(_FILE)
    for name, receiver in zip(("chat", "all"), receivers, strict=True):
        (folder / f"{name}-url").write_text(receiver.url)
    (folder / "headers").write_text(f"Authorization: {_TOKEN}\n")
    arguments = [[f"--notify-file={file}"]] * 2
    with run_two_gates(site, own, folder / "gates", Service, own_arguments=arguments) as replicas:
        wait_for_leader(replicas)
        until_end = f"{datetime.now(UTC) + timedelta(hours=20):%Y-%m-%dT%H:%M:%SZ}"
        cap = _CAP.format(namespace=team, dongle=DONGLE, hard=_HARD, soft=_SOFT, until=until_end)
        cap = cap.replace("hard: {example.com/dongle: 3}", "hard: {example.com/dongle: 3, memory: 1Gi}")
        replicas.write_policies(SHIPPED_FILES | {"dongles.yaml": cap})
        until_cap_is_active(site.cluster, team, pod(site, "large", f"{_HARD + 1}"))
        yield replicas


def _list_events(receiver: LocalReceiver) -> list[str]:
    """Return the events of the messages that were taken, of the receiver that gets all fields."""
    return [message.body["event"] for message in receiver.messages]


def _wait_for_events(receiver: LocalReceiver, gates: Replicas, *events: str) -> None:
    """Wait until these events have come, and no other comes in the time after it."""

    def log() -> str:
        return "\n".join(gate.log()[-3000:] for gate in gates.each if gate.runs)

    until(f"{events} have come", lambda: len(_list_events(receiver)) >= len(events), _WITHIN, log)
    ended_at = datetime.now(UTC) + timedelta(seconds=_LOOKS)
    until("the gates have looked again", lambda: datetime.now(UTC) > ended_at, _WITHIN)
    assert sorted(_list_events(receiver)) == sorted(events)


def _find(receiver: LocalReceiver, event: str) -> dict[str, Any]:
    body: dict[str, Any] = next(each.body for each in receiver.messages if each.body["event"] == event)
    return body


def test_each_event_comes_once_whichever_gate_leads(
    site: Site, team: str, gates: Replicas, receivers: tuple[LocalReceiver, LocalReceiver]
) -> None:
    """Kill the leader between two events, and start it again: its lease expires by itself."""
    chat, everything = receivers
    _wait_for_events(everything, gates, "overrideEnds")
    override = _find(everything, "overrideEnds")
    assert (override["cap"], override["limit"]) == ("dongles", "memory=1Gi")
    assert submit(site, team, "first", "2").is_done
    _wait_for_events(everything, gates, "overrideEnds", "softLimitCrossed")
    crossed = _find(everything, "softLimitCrossed")
    assert crossed["message"] == f"e2e: Cap dongles in {team}: 2 {DONGLE} are used, above the soft limit 1."
    leader = wait_for_leader(gates)
    leader.kill()
    _until_another_leads(gates)
    _wait_for_events(everything, gates, "overrideEnds", "softLimitCrossed")
    assert submit(site, team, "second", "1").is_done
    _wait_for_events(everything, gates, "overrideEnds", "softLimitCrossed", "capFull")
    full = _find(everything, "capFull")
    assert full["message"].endswith(f": 3 of 3 {DONGLE} are used.")
    leader.start()
    _wait_for_events(everything, gates, "overrideEnds", "softLimitCrossed", "capFull")
    texts = [message.body["text"] for message in chat.messages]
    assert sorted(texts) == sorted(message.body["message"] for message in everything.messages)
    assert {message.headers["Authorization"] for message in chat.messages} == {_TOKEN}


def _until_another_leads(gates: Replicas) -> None:
    def leads() -> bool:
        with suppress(OSError):
            return any(gate.runs and gate.readiness()["checks"]["leader-election"]["leader"] for gate in gates.each)
        return False

    until("another gate leads", leads, _WITHIN)


def test_a_crossing_comes_again_only_after_the_amount_was_at_the_limit(
    site: Site, team: str, gates: Replicas, receivers: tuple[LocalReceiver, LocalReceiver]
) -> None:
    _, everything = receivers
    everything.messages.clear()
    client = api(site.cluster.kubeconfig)
    for name in ("first", "second"):
        client.delete(f"/api/v1/namespaces/{team}/pods/{name}", gracePeriodSeconds="0")
    _wait_for_events(everything, gates)
    assert submit(site, team, "third", "2").is_done
    _wait_for_events(everything, gates, "softLimitCrossed")


def test_each_degraded_gate_and_its_recovery_come_once(
    gates: Replicas, receivers: tuple[LocalReceiver, LocalReceiver]
) -> None:
    """Break the policies of both gates: each of them reports itself, although one leads."""
    _, everything = receivers
    everything.messages.clear()
    valid = {path.name: path.read_text("utf-8") for path in gates.each[0].policies.iterdir()}
    gates.write_policies(valid | {"broken.yaml": "kind: [\n"})
    _wait_for_events(everything, gates, "gateDegraded", "gateDegraded")
    reasons = [message.body["message"] for message in everything.messages]
    assert all("has been degraded since" in reason and "policies: " in reason for reason in reasons)
    assert len({message.body["gate"] for message in everything.messages}) == 2
    gates.write_policies(valid)
    _wait_for_events(everything, gates, "gateDegraded", "gateDegraded", "gateRecovered", "gateRecovered")


def test_no_log_metric_or_record_has_an_address_or_a_header(
    site: Site, own: str, gates: Replicas, receivers: tuple[LocalReceiver, LocalReceiver]
) -> None:
    leases = api(site.cluster.kubeconfig).items(f"/apis/coordination.k8s.io/v1/namespaces/{own}/leases")
    record = next(each for each in leases if each["metadata"]["name"] == NOTIFIED_NAME)
    texts = [str(record), *(gate.log() for gate in gates.each), *(str(gate.readiness()) for gate in gates.each)]
    texts += [gate.metrics() for gate in gates.each]
    for text in texts:
        assert "notif" in text
        assert _TOKEN not in text
        assert not any(receiver.url in text or "/services/T0" in text for receiver in receivers)
