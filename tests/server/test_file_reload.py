"""Files that the server reads: certificates and tokens, their errors, and the content that stays active then."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tallygate.server.https.file_reload import CertificateReloader, TokenReloader
from tallygate.server.https.https_server import HttpsStartError
from tallygate.server.https.tls_files import (
    CertificateError,
    ServingCertificates,
    create_memory_files,
    read_certificates,
)
from tallygate.server.settings.token_file import TokenError, read_tokens
from tallygate.server.telemetry.json_log import forward_library_logs
from tallygate.server.telemetry.metrics import ServerMetrics
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue
from tests.certs.damaged_certificates import DAMAGES, damage_certificate
from tests.server.app_harness import Log

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    issue(tmp_path, parse_names(["localhost"]), NOW)
    return tmp_path


def read(folder: Path) -> ServingCertificates:
    return read_certificates(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")


def test_certificates_are_read_whole(folder: Path) -> None:
    found = read(folder)
    assert found.chain == (folder / "tls.crt").read_bytes()
    assert (found.subject, found.not_after) == ("CN=tallygate", NOW + timedelta(days=90))
    assert found.digest == read(folder).digest


def test_other_files_have_another_digest(folder: Path) -> None:
    before = read(folder).digest
    issue(folder, parse_names(["localhost"]), NOW)
    assert read(folder).digest != before


def test_files_in_memory_have_the_same_content_and_are_deleted(folder: Path) -> None:
    with create_memory_files(read(folder)) as files:
        assert Path(files.key).read_bytes() == (folder / "tls.key").read_bytes()
        client_ca = files.client_ca
        assert client_ca is not None
        assert Path(client_ca).read_bytes() == (folder / "ca.crt").read_bytes()
    assert not Path(files.key).exists()


DAMAGE = {
    "a missing certificate": ("tls.crt", None, "tls.crt cannot be read: No such file"),
    "a missing key": ("tls.key", None, "tls.key cannot be read: No such file"),
    "an invalid certificate": ("tls.crt", b"nonsense", "not a PEM certificate"),
    "an empty certificate": ("tls.crt", b"", "not a PEM certificate"),
    "an invalid key": ("tls.key", b"nonsense", "is not the unencrypted key of"),
    "an invalid CA certificate": ("ca.crt", b"nonsense", r"ca\.crt: not a PEM certificate"),
    "an empty file of CA certificates": ("ca.crt", b"", r"ca\.crt: not a PEM certificate"),
    "a certificate that is too large": ("tls.crt", b"x" * ((1 << 20) + 1), "larger than 1 MiB"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_files_are_rejected(folder: Path, case: str) -> None:
    name, content, words = DAMAGE[case]
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(CertificateError, match=words):
        read(folder)


_UNREADABLE = [damage for damage in DAMAGES if "extension" not in damage]  # the server reads no extension


@pytest.mark.parametrize("damage", _UNREADABLE)
def test_a_certificate_of_which_a_field_cannot_be_read_is_rejected(folder: Path, damage: str) -> None:
    chain = folder / "tls.crt"
    chain.write_bytes(damage_certificate(chain.read_bytes(), *DAMAGES[damage]))
    with pytest.raises(CertificateError, match=r"tls\.crt: "):
        read(folder)


class ReloaderHarness:
    """A reloader of the certificates in a folder, its log, its metrics, and the digests that it served."""

    def __init__(self, folder: Path) -> None:
        self.log = Log()
        self.metrics = ServerMetrics("0")
        self.served: list[str] = []
        self.now = NOW
        self.rejects = False
        self.certificates = CertificateReloader(
            lambda: read(folder), self._serve_with, self.log.logger, self.metrics, lambda: self.now
        )

    def _serve_with(self, certificates: ServingCertificates) -> None:
        if self.rejects:
            raise HttpsStartError("refused")
        self.served.append(certificates.digest)


def test_unchanged_certificates_are_not_reloaded(folder: Path) -> None:
    harness = ReloaderHarness(folder)
    harness.certificates.start()
    harness.certificates.reload_if_changed()
    assert (len(harness.served), harness.log.lines) == (1, [])


def test_a_new_certificate_is_reloaded_logged_and_counted(folder: Path) -> None:
    harness = ReloaderHarness(folder)
    harness.certificates.start()
    issue(folder, parse_names(["localhost"]), NOW + timedelta(days=1))
    harness.certificates.reload_if_changed()
    assert len(harness.served) == 2
    assert harness.log.lines[0]["not_after"] == "2026-04-02T00:00:00+00:00"
    not_after = harness.metrics.registry.get_sample_value("tallygate_certificate_not_after_timestamp_seconds")
    assert not_after == (NOW + timedelta(days=91)).timestamp()


@pytest.mark.parametrize("rejects", [False, True], ids=["broken files", "a server that rejects"])
def test_unusable_files_are_logged_once_and_change_nothing(folder: Path, rejects: bool) -> None:  # noqa: FBT001 - a column
    harness = ReloaderHarness(folder)
    harness.certificates.start()
    harness.rejects = rejects
    issue(folder, parse_names(["localhost"]), NOW)
    if not rejects:
        (folder / "tls.key").unlink()
    for _ in range(3):
        harness.certificates.reload_if_changed()
    assert (len(harness.served), len(harness.log.lines)) == (1, 1)
    assert harness.certificates.check().ready
    assert "error" in harness.certificates.check().detail


def test_an_expired_certificate_is_not_ready(folder: Path) -> None:
    harness = ReloaderHarness(folder)
    assert not harness.certificates.check().ready
    harness.certificates.start()
    assert harness.certificates.check().ready
    harness.now = NOW + timedelta(days=90)
    assert not harness.certificates.check().ready


TOKEN = "abcdefghijklmnop"  # noqa: S105 - a test's
GOOD_TOKENS = {
    "one": (f"{TOKEN}\n", [TOKEN]),
    "two": (f"{TOKEN}\n{TOKEN}2\n", [TOKEN, TOKEN + "2"]),
    "no line end": (TOKEN, [TOKEN]),
    "blanks and remarks": (f"# old\n\n  {TOKEN}  \r\n", [TOKEN]),
}
BAD_TOKENS = {
    "nothing": ("", "no token"),
    "only remarks": ("# none\n", "no token"),
    "too short": ("abc\n", ":1: a token is"),
    "the second too short": (f"{TOKEN}\nabc\n", ":2: a token is"),
    "a slash": (f"{TOKEN}/\n", "a token is"),
    "a blank inside": (f"{TOKEN} {TOKEN}\n", "a token is"),
    "too long": ("a" * 257, "a token is"),
}


@pytest.mark.parametrize("case", GOOD_TOKENS)
def test_a_token_file_has_one_token_on_each_line(tmp_path: Path, case: str) -> None:
    content, tokens = GOOD_TOKENS[case]
    (tmp_path / "t").write_text(content)
    assert read_tokens(tmp_path / "t") == tuple(token.encode() for token in tokens)


@pytest.mark.parametrize("case", BAD_TOKENS)
def test_an_invalid_token_file_is_an_error(tmp_path: Path, case: str) -> None:
    content, words = BAD_TOKENS[case]
    (tmp_path / "t").write_text(content)
    with pytest.raises(TokenError, match=words) as caught:
        read_tokens(tmp_path / "t")
    assert TOKEN not in str(caught.value)


def test_without_a_file_there_are_no_tokens() -> None:
    tokens = TokenReloader(None, Log().logger)
    tokens.reload_if_changed()
    assert tokens.get_tokens() == ()


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match=r"token_file: .* cannot be read: No such file"):
        TokenReloader(tmp_path / "none", Log().logger)


def test_unreadable_tokens_leave_the_old_ones_active_and_are_logged_once(tmp_path: Path) -> None:
    path, log = tmp_path / "t", Log()
    path.write_text(TOKEN)
    tokens = TokenReloader(path, log.logger)
    path.unlink()
    tokens.reload_if_changed()
    tokens.reload_if_changed()
    assert (tokens.get_tokens(), [line["event"] for line in log.lines]) == ((TOKEN.encode(),), ["tokens-reload-failed"])
    path.write_text(TOKEN + "2")
    tokens.reload_if_changed()
    assert tokens.get_tokens() == (TOKEN.encode() + b"2",)


@pytest.fixture
def restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    for handler in handlers:
        root.removeHandler(handler)
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("restore_logging")
def test_warnings_of_libraries_become_lines_of_the_log() -> None:
    log = Log()
    forward_library_logs(log.logger)
    logging.getLogger("waitress").warning("queue depth is %d", 5)
    logging.getLogger("waitress").info("no user needs this")
    (line,) = log.lines
    assert (line["event"], line["library"], line["level"]) == ("queue depth is 5", "waitress", "warning")
