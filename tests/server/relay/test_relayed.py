"""A relay as a process, before gates as processes that are killed, held up and started again."""

import shutil
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from certs.renewal import issue
from tests.server.building import MUTATE, VALIDATE, review
from tests.server.process import NAMES, ServerProcess, eventually, every
from webhook.server.relay.failover import PeerService, RelayRequest, UnreachableError, UpstreamTimeout
from webhook.server.relay.upstreams import PeerUpstream

RELAY = "tests.server.relay.real"


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[ServerProcess]:
    """The gate beside the relay."""
    with ServerProcess(_folder(tmp_path, "gate")) as running:
        yield running


def _folder(parent: Path, name: str) -> Path:
    """One for each process, with the certificates that the first has made."""
    made = parent / name
    made.mkdir()
    for file in parent.glob("gate/*.???"):
        shutil.copy(file, made)
    return made


def _before(gate: ServerProcess, name: str = "relay", **settings: object) -> ServerProcess:
    """A relay before this gate, with its certificates."""
    return ServerProcess(_folder(gate.folder.parent, name), RELAY, upstream=f"127.0.0.1:{gate.port}", **settings)


def _others(another: ServerProcess, gate: ServerProcess) -> dict[str, Any]:
    """That another is asked, too, whom the gate's authority vouches for."""
    return {"peers": another.port, "peers_ca_file": gate.folder / "ca.crt"}


def _again(gate: ServerProcess) -> ServerProcess:
    """The gate started anew, where it was."""
    return ServerProcess(_folder(gate.folder.parent, "again"), listen=f"127.0.0.1:{gate.port}")


def _heard(relay: ServerProcess) -> str:
    """Why its gate is silent."""
    assert eventually(lambda: bool(relay.logged("upstream-unreachable")))
    return str(relay.logged("upstream-unreachable")[0]["message"])


def _end(server: ServerProcess) -> None:
    server.process.kill()
    server.process.wait(30)


def test_what_a_gate_says_is_passed_on_as_it_is(gate: ServerProcess) -> None:
    asked = [
        (MUTATE, review()),
        (VALIDATE, review("deny")),
        (MUTATE, b"no review"),
        (MUTATE, review("undecided")),
        (f"{MUTATE}/%0d%0a?timeout=x", review()),
        ("/v1/admit/nothing", review()),
    ]
    with _before(gate) as relay, relay.client() as relayed, gate.client() as direct:
        for path, body in asked:
            there, here = direct.post(path, content=body), relayed.post(path, content=body)
            assert (here.status_code, here.content) == (there.status_code, there.content)
            assert here.headers["content-type"] == there.headers["content-type"]


def test_it_has_health_and_figures_of_its_own_and_passes_nothing_else_on(gate: ServerProcess) -> None:
    with _before(gate) as relay, relay.client() as client:
        client.post(MUTATE, content=review())
        assert client.get(MUTATE).status_code == 405
        assert client.get("/metrics").status_code == 404
        assert sorted(client.get("/readyz").json()["checks"]) == ["certificate", "serving"]
        assert relay.counted("tallygate_relay_requests_total") == 1


def test_a_body_that_is_too_large_is_not_passed_on(gate: ServerProcess) -> None:
    with _before(gate, body_limit="1Ki") as relay, relay.client() as client:
        assert client.post(MUTATE, content=b"x" * 1025).status_code == 413
        assert relay.counted("tallygate_relay_requests_total") == 0


def test_a_review_outlives_the_gate_that_is_killed_while_it_judges_it(gate: ServerProcess) -> None:
    answers: list[int] = []

    def post(number: int, _: threading.Event) -> None:
        with relay.client() as client:
            client.post(MUTATE, content=review())  # a connection of the relay's to the gate is kept from now on
            answers.append(client.post(MUTATE, content=review(f"wait-{300 + number}")).status_code)

    with _before(gate) as relay, every(4, post):
        assert eventually(lambda: len(gate.logged("waiting")) == 4)
        _end(gate)
        with _again(gate):
            assert eventually(lambda: len(answers) == 4)
    assert answers == [200] * 4


def test_another_replica_answers_while_the_gate_is_gone_and_the_gate_once_it_is_back(
    tmp_path: Path, gate: ServerProcess
) -> None:
    with ServerProcess(_folder(tmp_path, "another")) as another:
        relay = _before(gate, **_others(another, gate))
        with relay, relay.client() as client:
            _end(gate)
            assert client.post(MUTATE, content=review("deny")).json()["response"]["allowed"] is False
            assert eventually(lambda: bool(relay.logged("upstream-unreachable")))
            with _again(gate):
                _end(another)
                assert client.post(MUTATE, content=review()).status_code == 200
                assert eventually(lambda: bool(relay.logged("upstream-reachable")))


def test_a_gate_that_is_not_ready_is_not_asked_while_another_is(tmp_path: Path, gate: ServerProcess) -> None:
    """One that has just begun would put off what another can decide; here one whose certificate is of yesteryear."""
    old = tmp_path / "old"
    issue(old, NAMES, datetime.now(UTC) - timedelta(days=365))
    folder = _folder(tmp_path, "first")
    with ServerProcess(old) as unready:
        with ServerProcess(folder, RELAY, upstream=f"127.0.0.1:{unready.port}", **_others(gate, gate)) as relay:
            with relay.client() as client:
                assert client.post(MUTATE, content=review()).status_code == 200
            assert "it is not ready: certificate" in _heard(relay)
        assert unready.counted("tallygate_admission_requests_total") == 0
        alone = ServerProcess(_folder(tmp_path, "alone"), RELAY, upstream=f"127.0.0.1:{unready.port}")
        with alone, alone.client() as client:
            assert client.post(f"{MUTATE}?timeout=1.4s", content=review()).status_code == 200  # better than no answer
            assert _heard(alone)


def test_a_gate_that_drains_is_asked_at_once(tmp_path: Path, gate: ServerProcess) -> None:
    """A peer exists as well: it gets no review."""
    ending = ServerProcess(_folder(tmp_path, "ending"), drain_delay="60s")
    with ending, _before(ending, "second", **_others(gate, gate)) as relay, relay.client() as client:
        ending.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: bool(ending.logged("draining")))
        assert [client.post(MUTATE, content=review()).status_code for _ in range(3)] == [200] * 3
        assert relay.logged("upstream-unreachable") == []
    assert gate.counted("tallygate_admission_requests_total") == 0


def test_another_that_nobody_vouches_for_is_told_nothing(tmp_path: Path, gate: ServerProcess) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    with ServerProcess(stranger) as another:
        others = _others(another, gate)
        with _before(gate, decision_timeout="2s", **others) as relay, relay.client() as client:
            _end(gate)
            answer = client.post(MUTATE, content=review())
        assert answer.status_code == 503
        assert "Connection refused" in answer.json()["message"]
        assert "CERTIFICATE_VERIFY_FAILED" in answer.json()["message"]
        assert another.counted("tallygate_admission_requests_total") == 0


@pytest.mark.parametrize(
    "content", [pytest.param(None, id="not there"), pytest.param(b"", id="empty"), pytest.param(b"\xff", id="no PEM")]
)
def test_another_is_not_asked_without_who_vouches_for_it(
    content: bytes | None, tmp_path: Path, gate: ServerProcess
) -> None:
    authorities = tmp_path / "authorities"
    if content is not None:
        authorities.write_bytes(content)
    others = PeerUpstream(PeerService("localhost", gate.port), authorities, "this")
    with pytest.raises(UnreachableError, match=rf"localhost:{gate.port} is not asked: .*authorities cannot be read"):
        others.send(RelayRequest(MUTATE, review()), UpstreamTimeout(5.0))


def test_a_gate_that_is_held_up_leaves_time_for_another(tmp_path: Path, gate: ServerProcess) -> None:
    with ServerProcess(_folder(tmp_path, "another")) as another:
        others = _others(another, gate)
        with _before(gate, decision_timeout="2s", **others) as relay, relay.client() as client:
            gate.process.send_signal(signal.SIGSTOP)
            assert client.post(MUTATE, content=review()).status_code == 200
            assert another.counted("tallygate_admission_requests_total") == 1


def test_two_relays_without_a_gate_do_not_ask_each_other_for_ever(gate: ServerProcess) -> None:
    with _before(gate, "far") as far:
        others = _others(far, gate)
        with _before(gate, "near", decision_timeout="700ms", **others) as near, near.client() as client:
            _end(gate)
            answer = client.post(MUTATE, content=review())
        assert answer.status_code == 503
        assert answer.json()["message"].startswith("no gate answered: ")
        assert 0 < far.counted("tallygate_relay_requests_total") < 100


def test_the_end_of_the_time_that_is_given_is_not_waited_for(gate: ServerProcess) -> None:
    with _before(gate) as relay, relay.client() as client:
        _end(gate)
        with pytest.raises(httpx.ReadTimeout):
            client.post(f"{MUTATE}?timeout=10s", content=review(), timeout=0.5)
        answer = client.post(f"{MUTATE}?timeout=1s", content=review(), timeout=1.0)
    assert answer.status_code == 503


def test_it_waits_for_certificates_that_are_about_to_be_written(tmp_path: Path, gate: ServerProcess) -> None:
    later, folder = tmp_path / "later", _folder(tmp_path, "relay")
    later.mkdir()
    (folder / "log").touch()

    def write(_: int, __: threading.Event) -> None:
        assert eventually(lambda: '"waiting"' in (folder / "log").read_text())
        for name in ("tls.key", "tls.crt"):
            (later / f".{name}").write_bytes((folder / name).read_bytes())
            (later / f".{name}").rename(later / name)

    files = {"tls_cert": later / "tls.crt", "tls_key": later / "tls.key"}
    with every(1, write), ServerProcess(folder, RELAY, upstream=f"127.0.0.1:{gate.port}", **files) as relay:
        assert relay.logged("waiting")[0]["files"] == [str(each) for each in files.values()]


def test_large_bodies_are_passed_on_a_few_at_a_time_and_others_wait_for_their_place(gate: ServerProcess) -> None:
    """Whoever reaches the port could else fill its memory while no gate answers."""
    codes: list[int] = []

    def post(_: int, __: threading.Event) -> None:
        with relay.client() as client:
            codes.append(client.post(f"{MUTATE}?timeout=3s", content=large).status_code)

    large = review(object={"of": "x" * (7 << 20)})
    with _before(gate) as relay:
        _end(gate)
        before = relay.status("VmHWM")
        with every(24, post):
            pass
        grown = relay.status("VmHWM") - before  # KiB
    assert set(codes) == {503}
    assert grown < 320 << 10  # 240 MiB as a rule, as malloc keeps what threads let go of; all held at a time take 410
