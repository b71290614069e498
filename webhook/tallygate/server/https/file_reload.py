"""The reload of files while the server runs: the certificate, its key, the client CA and the tokens.

A file that cannot be used leaves the last valid content active. Tokens are secret path segments.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from watchfiles import watch

from tallygate.server.https.https_server import HttpsStartError
from tallygate.server.https.tls_files import CertificateError, ServingCertificates
from tallygate.server.interfaces import ReadinessStatus
from tallygate.server.settings.token_file import TokenError, read_tokens
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.telemetry.metrics import ServerMetrics

_POLL_SECONDS = 5


def watch_files(paths: Sequence[Path], reload: Callable[[], None], stop: threading.Event) -> None:
    """Call `reload` now, after every change in the folders of these files, and every five seconds, until `stop` is set.

    The thread watches folders, not files: the kubelet updates a Secret by replacing a symlink beside the files. It also
    calls `reload` every five seconds: some file systems notify of no change, and nothing of one before the watch began.
    `reload` itself finds out whether a file has changed, and does not raise.
    """
    folders = sorted({path.absolute().parent for path in paths})

    def run() -> None:
        while not stop.is_set():
            reload()
            for _ in _iterate_changes(folders, stop):
                reload()

    threading.Thread(target=run, name="watch-files", daemon=True).start()


def _iterate_changes(folders: Sequence[Path], stop: threading.Event) -> Iterator[object]:
    """Yield after every change and every five seconds, until `stop` is set or the watch fails."""
    try:
        yield from watch(
            *folders,
            watch_filter=None,
            stop_event=stop,
            recursive=False,
            rust_timeout=_POLL_SECONDS * 1000,
            yield_on_timeout=True,
            raise_interrupt=False,
        )
    except (OSError, RuntimeError):  # a folder is missing, or the system has no more watches: poll
        stop.wait(_POLL_SECONDS)


class CertificateReloader:
    """The reloader of the serving certificates.

    Args:
        read: reads and checks the current files.
        install: makes the server use certificates.
        log: the log of every reload and of every failed one.
        metrics: the counters of reloads, and the expiry of the certificate.
        now: returns the current time.
    """

    def __init__(
        self,
        read: Callable[[], ServingCertificates],
        install: Callable[[ServingCertificates], None],
        log: Logger,
        metrics: ServerMetrics,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._read = read
        self._install = install
        self._log = log
        self._metrics = metrics
        self._now = now
        self._current: ServingCertificates | None = None
        self._failure_log = FailureLog(self._log_failure)

    def start(self) -> None:
        """Install the certificates for the first time.

        Raises:
            CertificateError: if the files are invalid.
            HttpsStartError: if the server cannot start with them.
        """
        self._install_and_record(self._read())

    def reload_if_changed(self) -> None:
        """Install the certificates if the files have changed and are valid; log the result."""
        try:
            certificates = self._read()
            if self._current and certificates.digest == self._current.digest:
                self._failure_log.update("")
                return
            self._install_and_record(certificates)
        except (CertificateError, HttpsStartError) as error:
            self._failure_log.update(str(error))
        else:
            fields = {
                "subject": certificates.subject,
                "fingerprint": certificates.fingerprint,
                "not_after": certificates.not_after.isoformat(),
            }
            self._log.info("certificate-reloaded", **fields)

    def check(self) -> ReadinessStatus:
        """Return a status that is ready while the current certificate has not expired."""
        if self._current is None:
            return ReadinessStatus("certificate", ready=False)
        detail = {
            "subject": self._current.subject,
            "fingerprint": self._current.fingerprint,
            "notAfter": self._current.not_after.isoformat(),
        }
        if self._failure_log.failure:
            detail["error"] = self._failure_log.failure
        return ReadinessStatus("certificate", self._now() < self._current.not_after, detail)

    def _install_and_record(self, certificates: ServingCertificates) -> None:
        self._install(certificates)
        self._current = certificates
        self._failure_log.update("")
        self._metrics.certificate_not_after.set(certificates.not_after.timestamp())

    def _log_failure(self, *, message: str) -> None:
        self._log.error("certificate-reload-failed", message=message)


class TokenReloader:
    """The reloader of the tokens. Without a file it never has any.

    Raises:
        TokenError: if the file is invalid.
    """

    def __init__(self, path: Path | None, log: Logger) -> None:
        self._path = path
        self._log = log
        self._tokens = read_tokens(path) if path else ()
        self._failure_log = FailureLog(partial(log.error, "tokens-reload-failed"))

    def get_tokens(self) -> tuple[bytes, ...]:
        """Return the tokens that are valid now."""
        return self._tokens

    def reload_if_changed(self) -> None:
        """Replace the tokens if the file has changed and is valid; log the result."""
        if self._path is None:
            return
        try:
            tokens = read_tokens(self._path)
        except TokenError as error:
            self._failure_log.update(str(error))
            return
        self._failure_log.update("")
        if tokens != self._tokens:
            self._tokens = tokens
            self._log.info("tokens-reloaded", number=len(tokens))
