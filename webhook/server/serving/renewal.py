"""What is taken up while serving: a new certificate, new tokens. What cannot be used leaves the last good in force."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from webhook.server.ports import Check
from webhook.server.reporting.logs import Logger
from webhook.server.reporting.metrics import Metrics
from webhook.server.serving.generation import StartError
from webhook.server.serving.tls import CertificateError, Certificates
from webhook.server.serving.tokens import TokenError, read_tokens


class LiveCertificates:
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
        read: Callable[[], Certificates],
        serve_with: Callable[[Certificates], None],
        log: Logger,
        metrics: Metrics,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._read = read
        self._serve_with = serve_with
        self._log = log
        self._metrics = metrics
        self._now = now
        self._current: Certificates | None = None
        self._error = ""

    def start(self) -> None:
        """Put the files in force for the first time.

        Raises:
            CertificateError: they cannot be used.
            StartError: they cannot be served with.
        """
        self._take(self._read())

    def look(self) -> None:
        """Take up the files if they have changed and can be used."""
        try:
            found = self._read()
            if self._current and found.digest == self._current.digest:
                self._error = ""
                return
            self._take(found)
        except (CertificateError, StartError) as error:
            if str(error) != self._error:
                self._metrics.certificate_reloaded(success=False)
                self._log.error("certificate-not-renewed", message=str(error))
            self._error = str(error)
        else:
            self._metrics.certificate_reloaded(success=True)
            told = {
                "subject": found.subject,
                "fingerprint": found.fingerprint,
                "not_after": found.not_after.isoformat(),
            }
            self._log.info("certificate-renewed", **told)

    def check(self) -> Check:
        """Ready while the certificate in force has not expired."""
        if self._current is None:
            return Check("certificate", ready=False)
        detail = {
            "subject": self._current.subject,
            "fingerprint": self._current.fingerprint,
            "notAfter": self._current.not_after.isoformat(),
        }
        if self._error:
            detail["error"] = self._error
        return Check("certificate", self._now() < self._current.not_after, detail)

    def _take(self, certificates: Certificates) -> None:
        self._serve_with(certificates)
        self._current = certificates
        self._error = ""
        self._metrics.certificate_not_after.set(certificates.not_after.timestamp())


class LiveTokens:
    """The secret path segments in force, and their renewal. Without a file there are none, and never will be.

    Raises:
        TokenError: the file cannot be used.
    """

    def __init__(self, path: Path | None, log: Logger) -> None:
        self._path = path
        self._log = log
        self._tokens = read_tokens(path) if path else ()
        self._error = ""

    def current(self) -> tuple[bytes, ...]:
        """The tokens that are valid now."""
        return self._tokens

    def look(self) -> None:
        """Take up the file if it has changed and can be used."""
        if self._path is None:
            return
        try:
            found = read_tokens(self._path)
        except TokenError as error:
            if str(error) != self._error:
                self._log.error("tokens-not-renewed", message=str(error))
            self._error = str(error)
            return
        self._error = ""
        if found != self._tokens:
            self._tokens = found
            self._log.info("tokens-renewed", number=len(found))
