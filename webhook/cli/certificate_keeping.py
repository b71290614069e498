"""`serve --tls-secret`: a thread that keeps the certificates of a Secret, and what the server serves with of it.

Composed here, since the server and the certificates do not know each other.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from traceback import extract_tb
from typing import Final

from certs.cluster import Source, connect
from certs.errors import CertsError
from certs.folder import Folder
from certs.in_cluster import InCluster
from certs.keeper import ChangedError, Keeper, Timing
from certs.kept import Leaf, fingerprint
from certs.names import service_names
from certs.succession import Step
from certs.watching import Watching
from webhook.admission.registration import CONFIGURATION_NAME
from webhook.cli.certificate_figures import CertificateFigures
from webhook.cli.certificate_turns import Turns
from webhook.errors import TallygateError
from webhook.server.interfaces import ReadinessStatus, ServerSetup
from webhook.server.lifecycle import ServeError
from webhook.server.settings.table import Settings
from webhook.server.telemetry.metrics import Telemetry

_QUIET_SECONDS: Final = 10.0  # between two looks
_LEAST_SECONDS: Final = 0.5  # while something is under way
_PART_OF_SETTLING: Final = 20  # so many looks in the time of settling
_START_SECONDS: Final = 60.0  # to have something to serve with
_JOIN_SECONDS: Final = 5.0
_WARNED_DAYS: Final = 14
_MOST_STEPS: Final = 6  # at a time: somebody else may undo each of them


@contextmanager
def keeping(settings: Settings, voice: Telemetry) -> Iterator[ServerSetup]:
    """Keep the certificates of `tls_secret`; what the server is to serve with, and to be asked.

    Raises:
        ServeError: the settings contradict each other, or nothing can be served with within a minute.
    """
    if settings.tls_cert or settings.tls_key:
        raise ServeError("tls_secret takes the place of tls_cert and tls_key: give the one or the others")
    with _folder(settings.tls_folder) as folder:
        kept = _Keeping(settings, folder, voice)
        kept.begin()
        try:
            yield ServerSetup(replace(settings, tls_cert=folder.chain, tls_key=folder.key), [kept.check])
        finally:
            kept.end()


@contextmanager
def _folder(path: Path | None) -> Iterator[Folder]:
    if path:
        yield Folder(path)
        return
    try:
        passing = tempfile.TemporaryDirectory(prefix="tallygate-")
    except OSError as error:
        raise ServeError(
            f"no temporary folder to hand certificates over in: {error.strerror or error}; name one by tls_folder"
        ) from None
    with passing as made:
        yield Folder(Path(made))


class _Keeping:
    """The thread, and what it tells."""

    def __init__(self, settings: Settings, folder: Folder, voice: Telemetry) -> None:
        self._settings = settings
        self._folder = folder
        self._log = voice.log
        self._figures = CertificateFigures(voice.metrics.registry)
        self._failure = ""
        self._complaint = ""
        self._stop = Event()
        self._turns = Turns(self._stop.wait)
        self._thread = Thread(target=self._run, name="certificates", daemon=True)
        self._keeper, self._watching = self._new_keeper()

    def begin(self) -> None:
        """Have something to serve with, and go on from there.

        Raises:
            ServeError: there is nothing within a minute.
        """
        deadline = time.monotonic() + _START_SECONDS
        self._look()
        while self._keeper.served is None:
            if time.monotonic() > deadline:
                raise ServeError(f"nothing to serve with from the Secret {self._settings.tls_secret}: {self._failure}")
            self._stop.wait(_LEAST_SECONDS)
            self._look()
        self._thread.start()
        self._watching.begin()

    def end(self) -> None:
        """Cease; a call under way is not waited for."""
        self._stop.set()
        self._turns.change()
        self._watching.end()
        self._thread.join(_JOIN_SECONDS)

    def check(self) -> ReadinessStatus:
        """Always ready: what is served with is told by the server's own check. What is amiss is told here."""
        served = self._keeper.served
        detail: dict[str, object] = {"secret": self._settings.tls_secret}
        if served:
            detail["handedOver"] = fingerprint(served.certificate)
        said = {"failure": self._failure, "complaint": self._complaint, "unwatched": self._watching.failure}
        return ReadinessStatus(
            "certificates", ready=True, detail=detail | {name: text for name, text in said.items() if text}
        )

    def _new_keeper(self) -> tuple[Keeper, Watching]:
        namespace, slash, name = self._settings.tls_secret.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise ServeError(
                f"tls_secret {self._settings.tls_secret!r}: write NAMESPACE/NAME, as in tallygate-system/tallygate-tls"
            )
        try:
            client = connect(_source(self._settings))
            names = service_names(CONFIGURATION_NAME, namespace)
        except CertsError as error:
            raise ServeError(str(error)) from None
        timing = Timing(lambda: datetime.now(UTC), time.monotonic, self._settings.tls_settling)
        served = self._folder.read(datetime.now(UTC))
        keeper = Keeper(InCluster(client, (namespace, name), CONFIGURATION_NAME), names, self._take, timing, served)
        return keeper, Watching(client, (namespace, name), CONFIGURATION_NAME, self._turns.change)

    def _take(self, leaf: Leaf) -> None:
        self._folder.write(leaf)
        self._log.info(
            "certificate-taken",
            certificate=fingerprint(leaf.certificate),
            not_after=leaf.certificate.not_valid_after_utc.isoformat(),
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            self._turns.wait(self._pause())
            if not self._stop.is_set():
                self._look()

    def _pause(self) -> float:
        seconds = _QUIET_SECONDS
        if self._keeper.is_pending and not self._failure:
            seconds = min(seconds, max(_LEAST_SECONDS, self._settings.tls_settling / _PART_OF_SETTLING))
        return seconds

    def _look(self) -> None:
        """Look, and do what is to be done until nothing is."""
        try:
            for step in islice(iter(self._keeper.round, None), _MOST_STEPS):
                self._tell(step)
        except ChangedError as error:
            self._log.info("certificates-changed-meanwhile", message=str(error))
        except (CertsError, TallygateError) as error:
            self._note(str(error))
        except Exception as crash:  # noqa: BLE001  # a fault of ours must not leave certificates unrenewed for good
            where = extract_tb(crash.__traceback__)[-1]  # what it says may hold what it was given
            self._note(f"a fault of tallygate: {type(crash).__name__} in {where.name}, line {where.lineno}")
        else:
            self._figures.looked(success=True)
            self._note("")
        self._complain(self._keeper.complaint)

    def _tell(self, step: Step) -> None:
        self._figures.stepped(step.what)
        authorities = [fingerprint(each) for each in step.kept.authorities] if step.kept else None
        more = {"authorities": authorities} if authorities else {}
        self._log.info("certificates-kept", step=step.what, message=step.why, **more)

    def _note(self, failure: str) -> None:
        """Remember a failure, or that there is none any more; log it when it is another than before."""
        if failure:
            self._figures.looked(success=False)
        if failure and failure != self._failure:
            served = self._keeper.served
            left = (served.certificate.not_valid_after_utc - datetime.now(UTC)).days if served else None
            loud = self._log.warning if left is not None and left > _WARNED_DAYS else self._log.error
            loud("certificates-not-kept", message=failure, days_left=left)
        elif self._failure and not failure:
            self._log.info("certificates-kept-again")
        self._failure = failure

    def _complain(self, complaint: str) -> None:
        if complaint and complaint != self._complaint:
            self._log.warning("certificates-asked-in-vain", message=complaint)
        self._complaint = complaint


def _source(settings: Settings) -> Source:
    """The cluster that is followed; where none is, that of a kubeconfig that is named, or the one this runs in."""
    if settings.cluster == "kubeconfig" or (settings.cluster == "none" and settings.kubeconfig):
        return Source(settings.kubeconfig, settings.context or None)
    return Source(in_cluster=True)
