"""Users whom front proxies state: what counts of their headers, and what of their certificates."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.front_proxy import MAX_BYTES, FrontProxies, StatedHeaders
from tallygate.server.asking.identity import Asker
from tallygate.server.interfaces import ProxyRequest
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue
from tests.server.client_certificates import issue_client_certificate

USER = (b"x-remote-user", b"bob")
ALL = "system:authenticated"
LISTS = StatedHeaders(
    user="X-Forwarded-User", group="X-Forwarded-Groups", extra_prefix="X-Extra-", has_group_lists=True
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a CA."""
    made = tmp_path_factory.mktemp("proxies")
    issue(made, parse_names(["localhost"]), datetime.now(UTC))
    return made


def create_request(folder: Path, *headers: tuple[bytes, bytes], name: str = "front", **options: Any) -> ProxyRequest:
    """Return a request of a front proxy."""
    pem = issue_client_certificate(folder, name, **options).read_bytes()
    return ProxyRequest(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER), headers)


_COUNTED: dict[str, tuple[list[tuple[bytes, bytes]], Asker]] = {
    "a user": ([USER], Asker("bob", groups=(ALL,))),
    "groups": (
        [USER, (b"x-remote-group", b"dev"), (b"x-remote-group", b"a, b"), (b"x-remote-group", b"")],
        Asker("bob", groups=("dev", "a, b", ALL)),
    ),
    "a group that is there": ([USER, (b"x-remote-group", ALL.encode())], Asker("bob", groups=(ALL,))),
    "no user": (
        [(USER[0], b"system:anonymous"), (b"x-remote-group", b"system:unauthenticated")],
        Asker("system:anonymous", groups=("system:unauthenticated",)),
    ),
    "extra": (
        [USER, (b"x-remote-extra-b%2fc", b"2"), (b"x-remote-extra-a", b"1"), (b"x-remote-extra-a", b"0")],
        Asker("bob", groups=(ALL,), extra=(("a", ("1", "0")), ("b/c", ("2",)))),
    ),
    "a percent sign": ([USER, (b"x-remote-extra-a%zz%41", b"1")], Asker("bob", "", (ALL,), (("a%zz%41", ("1",)),))),
    "other letters": ([(USER[0], "Zoë".encode())], Asker("Zoë", groups=(ALL,))),
    "other headers": (
        [
            USER,
            (b"x_remote_user", b"mallory"),
            (b"x-remote-users", b"mallory"),
            (b"x-remote-uid", b"0"),
            (b"authorization", b"B"),
        ],
        Asker("bob", groups=(ALL,)),
    ),
}
"""Headers, with names as h11 has them, and the user of the API server's authenticator of headers."""


@pytest.mark.parametrize("name", _COUNTED)
def test_a_user_is_as_the_api_server_reads_him_from_headers(folder: Path, name: str) -> None:
    headers, expected = _COUNTED[name]
    assert FrontProxies().identify(create_request(folder, *headers), datetime.now(UTC)) == expected


_REFUSED: dict[str, tuple[list[tuple[bytes, bytes]], str]] = {
    "no user": ([(b"x-remote-group", b"system:masters")], "states no user"),
    "an empty user": ([(USER[0], b"")], "states no user"),
    "two users": ([USER, (USER[0], b"mallory")], "is repeated"),
    "the same user twice": ([USER, USER], "is repeated"),
    "an empty user and one": ([(USER[0], b""), USER], "is repeated"),
    "no UTF-8": ([(USER[0], b"\xff")], "printable text"),
    "a control character": ([(USER[0], b"bob\x01")], "printable text"),
    "a hidden blank": ([USER, (b"x-remote-group", "dev\u200b".encode())], "printable text"),
    "a hidden key": ([USER, (b"x-remote-extra-a%00", b"1")], "printable text"),
    "a long user": ([(USER[0], b"b" * MAX_BYTES)], f"more than {MAX_BYTES} bytes"),
    "many groups": ([USER, *[(b"x-remote-group", b"g" * 9)] * 1000], f"more than {MAX_BYTES} bytes"),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_headers_that_state_no_single_user_as_text_are_refused_without_their_content(folder: Path, name: str) -> None:
    headers, sentence = _REFUSED[name]
    with pytest.raises(AskError, match=sentence) as caught:
        FrontProxies().identify(create_request(folder, *headers), datetime.now(UTC))
    assert caught.value.status == 401
    assert "mallory" not in caught.value.message


def test_a_certificate_counts_with_an_allowed_name_and_any_name_without_names(folder: Path) -> None:
    now, proxies = datetime.now(UTC), FrontProxies(["front", "other"])
    assert proxies.identify(create_request(folder, USER), now).username == "bob"
    for name in ("mallory", "Front", ""):
        with pytest.raises(AskError, match="not allowed") as caught:
            proxies.identify(create_request(folder, USER, name=name), now)
        assert caught.value.status == 401
        assert FrontProxies().identify(create_request(folder, USER, name=name), now).username == "bob"


def test_a_certificate_that_is_over_or_not_for_clients_states_no_user(folder: Path) -> None:
    """Let a connection outlive its certificate, and pass a certificate on that no handshake would accept."""
    with pytest.raises(AskError, match="not valid at this time"):
        FrontProxies().identify(create_request(folder, USER), datetime.now(UTC) + timedelta(days=2))
    with pytest.raises(AskError, match="clientAuth"):
        FrontProxies().identify(create_request(folder, USER, is_for_clients=False), datetime.now(UTC))


def test_headers_may_have_other_names_and_lists_of_groups(folder: Path) -> None:
    headers = [
        *((b"x-forwarded-user", b"bob"), (b"x-forwarded-groups", b"dev, ops,,"), (b"x-forwarded-groups", b"qa")),
        *((b"x-extra-a", b"1"), (USER[0], b"mallory"), (b"x-remote-group", b"system:masters")),
    ]
    found = FrontProxies(headers=LISTS).identify(create_request(folder, *headers), datetime.now(UTC))
    assert found == Asker("bob", groups=("dev", "ops", "qa", ALL), extra=(("a", ("1",)),))


def test_the_headers_are_removed_from_malloryry_request() -> None:
    environ = dict.fromkeys(("HTTP_X_REMOTE_USER", "HTTP_X_REMOTE_GROUP", "HTTP_X_REMOTE_EXTRA_A", "HTTP_HOST"), "x")
    FrontProxies().remove_headers(environ)
    assert list(environ) == ["HTTP_HOST"]
