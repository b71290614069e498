"""What is taken up while serving: a new certificate, new tokens. What cannot be used leaves the last good in force."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from webhook.server.ports import ReadinessStatus
from webhook.server.reporting.logs import Logger
from webhook.server.reporting.metrics import ServerMetrics
from webhook.server.serving.generation import HttpsStartError
from webhook.server.serving.tls import CertificateError, ServingCertificates
from webhook.server.serving.tokens import TokenError, read_tokens


class CertificateReloader:
    """The certificates in force, and their renewal.

    Args:
        read: the files as they are now.
        serve_with: puts certificates in force.
        log: told of every renewal, and of every one that failed.
        metrics: likewise.
        now: the time.
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
        self._error = ""

    def start(self) -> None:
        """Put the files in force for the first time.

        Raises:
            CertificateError: they cannot be used.
            StartError: they cannot be served with.
        """
        self._install_and_record(self._read())

    def reload_if_changed(self) -> None:
        """Take up the files if they have changed and can be used."""
        try:
            certificates = self._read()
            if self._current and certificates.digest == self._current.digest:
                self._error = ""
                return
            self._install_and_record(certificates)
        except (CertificateError, HttpsStartError) as error:
            if str(error) != self._error:
                self._metrics.count_certificate_reload(success=False)
                self._log.error("certificate-not-renewed", message=str(error))
            self._error = str(error)
        else:
            self._metrics.count_certificate_reload(success=True)
            fields = {
                "subject": certificates.subject,
                "fingerprint": certificates.fingerprint,
                "not_after": certificates.not_after.isoformat(),
            }
            self._log.info("certificate-renewed", **fields)

    def check(self) -> ReadinessStatus:
        """Ready while the certificate in force has not expired."""
        if self._current is None:
            return ReadinessStatus("certificate", ready=False)
        detail = {
            "subject": self._current.subject,
            "fingerprint": self._current.fingerprint,
            "notAfter": self._current.not_after.isoformat(),
        }
        if self._error:
            detail["error"] = self._error
        return ReadinessStatus("certificate", self._now() < self._current.not_after, detail)

    def _install_and_record(self, certificates: ServingCertificates) -> None:
        self._install(certificates)
        self._current = certificates
        self._error = ""
        self._metrics.certificate_not_after.set(certificates.not_after.timestamp())


class TokenReloader:
    """The secret path segments in force, and their renewal. Without a file there are none, and never will be.

    Raises:
        TokenError: the file cannot be used.
    """

    def __init__(self, path: Path | None, log: Logger) -> None:
        self._path = path
        self._log = log
        self._tokens = read_tokens(path) if path else ()
        self._error = ""

    def get_tokens(self) -> tuple[bytes, ...]:
        """The tokens that are valid now."""
        return self._tokens

    def reload_if_changed(self) -> None:
        """Take up the file if it has changed and can be used."""
        if self._path is None:
            return
        try:
            tokens = read_tokens(self._path)
        except TokenError as error:
            if str(error) != self._error:
                self._log.error("tokens-not-renewed", message=str(error))
            self._error = str(error)
            return
        self._error = ""
        if tokens != self._tokens:
            self._tokens = tokens
            self._log.info("tokens-renewed", number=len(tokens))
