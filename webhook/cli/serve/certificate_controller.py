"""What metrics say of the certificates that are kept in a Secret.

When certificates are looked at: now and then, and soon after something has changed.

`serve --tls-secret`: a thread that keeps the certificates of a Secret, and what the server serves with of it.

Composed here, since the server and the certificates do not know each other.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from traceback import extract_tb
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from certs.cluster import Source, connect
from certs.errors import CertsError
from certs.folder import Folder
from certs.in_cluster import InCluster
from certs.keeper import ChangedError, Keeper, Timing
from certs.kept import Leaf, fingerprint
from certs.names import service_names
from certs.succession import Step, What
from certs.watching import Watching
from webhook.admission.webhook_configuration import CONFIGURATION_NAME
from webhook.errors import TallygateError
from webhook.server.interfaces import ReadinessStatus, ServerSetup
from webhook.server.lifecycle import ServeError
from webhook.server.settings.table import Settings
from webhook.server.telemetry.metrics import Telemetry

_RESULTS: Final = ("success", "failure")


class CertificateMetrics:
    """Every series is there from the beginning, so that nothing has to have happened before it can be asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._steps = Counter(
            "tallygate_certificate_steps",
            "Steps that this replica has taken to keep the Secret's certificates.",
            ("step",),
            registry=registry,
        )
        self._reconciles = Counter(
            "tallygate_certificate_looks",
            "Looks at the Secret of certificates and at what is published.",
            ("result",),
            registry=registry,
        )
        self._last_success = Gauge(
            "tallygate_certificate_last_look_timestamp_seconds",
            "When the Secret of certificates and what is published could last be looked at (Unix time).",
            registry=registry,
        )
        for result in _RESULTS:
            self._reconciles.labels(result)
        for action in What:
            self._steps.labels(action)

    def count_action(self, action: What) -> None:
        """Count a step."""
        self._steps.labels(action).inc()

    def count_reconcile(self, *, success: bool) -> None:
        """Count a look."""
        self._reconciles.labels("success" if success else "failure").inc()
        if success:
            self._last_success.set_to_current_time()


DEBOUNCE_SECONDS: Final = 0.05
"""From being told of a change to looking: both configurations change together."""

PROMPT_CHANGES: Final = 8
"""So many changes in a row are looked at so soon; what becomes of a registration is some five."""

_MAX_DOUBLINGS: Final = 16


class ChangeDebouncer:
    """Of one thread. `change` may be called by any; `rest` waits so many seconds, or less when it is time to stop."""

    def __init__(self, sleep: Callable[[float], object]) -> None:
        self._sleep = sleep
        self._changed = Event()
        self._change_count = 0

    def notify(self) -> None:
        """Something has changed, or it is time to stop."""
        self._changed.set()

    def wait(self, interval: float) -> None:
        """Wait for so many seconds, or until soon after something has changed.

        Not the same for all replicas, so that mostly one does what is to be done before the next looks. The longer
        changes go on, the later: somebody may write again and again what is put back here.
        """
        interval, started_at = interval * _draw_jitter(), time.monotonic()
        if not self._changed.wait(interval):
            self._change_count = 0
            return
        remaining = interval - (time.monotonic() - started_at)
        delay = (
            DEBOUNCE_SECONDS * 2 ** min(max(self._change_count - PROMPT_CHANGES, 0), _MAX_DOUBLINGS) * _draw_jitter()
        )
        self._sleep(max(0.0, min(remaining, delay)))
        self._change_count += 1
        self._changed.clear()


def _draw_jitter() -> float:
    return random.uniform(0.8, 1.2)  # noqa: S311  nothing secret about it


_RECONCILE_SECONDS: Final = 10.0  # between two looks
_MIN_RECONCILE_SECONDS: Final = 0.5  # while something is under way
_RECONCILES_PER_DELAY: Final = 20  # so many looks in the time of settling
_START_TIMEOUT_SECONDS: Final = 60.0  # to have something to serve with
_JOIN_TIMEOUT_SECONDS: Final = 5.0
_WARNING_DAYS: Final = 14
_MAX_ACTIONS: Final = 6  # at a time: somebody else may undo each of them


@contextmanager
def run_certificate_controller(settings: Settings, telemetry: Telemetry) -> Iterator[ServerSetup]:
    """Keep the certificates of `tls_secret`; what the server is to serve with, and to be asked.

    Raises:
        ServeError: the settings contradict each other, or nothing can be served with within a minute.
    """
    if settings.tls_cert or settings.tls_key:
        raise ServeError("tls_secret takes the place of tls_cert and tls_key: give the one or the others")
    with _open_folder(settings.tls_folder) as folder:
        controller = _CertificateController(settings, folder, telemetry)
        controller.start()
        try:
            yield ServerSetup(replace(settings, tls_cert=folder.chain, tls_key=folder.key), [controller.get_status])
        finally:
            controller.stop()


@contextmanager
def _open_folder(path: Path | None) -> Iterator[Folder]:
    if path:
        yield Folder(path)
        return
    try:
        temporary_folder = tempfile.TemporaryDirectory(prefix="tallygate-")
    except OSError as error:
        raise ServeError(
            f"no temporary folder to hand certificates over in: {error.strerror or error}; name one by tls_folder"
        ) from None
    with temporary_folder as name:
        yield Folder(Path(name))


class _CertificateController:
    """The thread, and what it tells."""

    def __init__(self, settings: Settings, folder: Folder, telemetry: Telemetry) -> None:
        self._settings = settings
        self._folder = folder
        self._log = telemetry.log
        self._metrics = CertificateMetrics(telemetry.metrics.registry)
        self._failure = ""
        self._request_error = ""
        self._stop = Event()
        self._debouncer = ChangeDebouncer(self._stop.wait)
        self._thread = Thread(target=self._run, name="certificates", daemon=True)
        self._reconciler, self._watches = self._create_reconciler()

    def start(self) -> None:
        """Have something to serve with, and go on from there.

        Raises:
            ServeError: there is nothing within a minute.
        """
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        self._reconcile()
        while self._reconciler.served is None:
            if time.monotonic() > deadline:
                raise ServeError(f"nothing to serve with from the Secret {self._settings.tls_secret}: {self._failure}")
            self._stop.wait(_MIN_RECONCILE_SECONDS)
            self._reconcile()
        self._thread.start()
        self._watches.begin()

    def stop(self) -> None:
        """Cease; a call under way is not waited for."""
        self._stop.set()
        self._debouncer.notify()
        self._watches.end()
        self._thread.join(_JOIN_TIMEOUT_SECONDS)

    def get_status(self) -> ReadinessStatus:
        """Always ready: what is served with is told by the server's own check. What is amiss is told here."""
        served = self._reconciler.served
        detail: dict[str, object] = {"secret": self._settings.tls_secret}
        if served:
            detail["handedOver"] = fingerprint(served.certificate)
        problems = {"failure": self._failure, "complaint": self._request_error, "unwatched": self._watches.failure}
        return ReadinessStatus(
            "certificates", ready=True, detail=detail | {name: text for name, text in problems.items() if text}
        )

    def _create_reconciler(self) -> tuple[Keeper, Watching]:
        namespace, slash, name = self._settings.tls_secret.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise ServeError(
                f"tls_secret {self._settings.tls_secret!r}: write NAMESPACE/NAME, as in tallygate-system/tallygate-tls"
            )
        try:
            client = connect(_choose_source(self._settings))
            names = service_names(CONFIGURATION_NAME, namespace)
        except CertsError as error:
            raise ServeError(str(error)) from None
        timing = Timing(lambda: datetime.now(UTC), time.monotonic, self._settings.tls_settling)
        served = self._folder.read(datetime.now(UTC))
        reconciler = Keeper(
            InCluster(client, (namespace, name), CONFIGURATION_NAME), names, self._install, timing, served
        )
        return reconciler, Watching(client, (namespace, name), CONFIGURATION_NAME, self._debouncer.notify)

    def _install(self, serving_certificate: Leaf) -> None:
        self._folder.write(serving_certificate)
        self._log.info(
            "certificate-taken",
            certificate=fingerprint(serving_certificate.certificate),
            not_after=serving_certificate.certificate.not_valid_after_utc.isoformat(),
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            self._debouncer.wait(self._choose_interval())
            if not self._stop.is_set():
                self._reconcile()

    def _choose_interval(self) -> float:
        seconds = _RECONCILE_SECONDS
        if self._reconciler.is_pending and not self._failure:
            seconds = min(seconds, max(_MIN_RECONCILE_SECONDS, self._settings.tls_settling / _RECONCILES_PER_DELAY))
        return seconds

    def _reconcile(self) -> None:
        """Look, and do what is to be done until nothing is."""
        try:
            for action in islice(iter(self._reconciler.round, None), _MAX_ACTIONS):
                self._report_action(action)
        except ChangedError as error:
            self._log.info("certificates-changed-meanwhile", message=str(error))
        except (CertsError, TallygateError) as error:
            self._set_failure(str(error))
        except Exception as crash:  # noqa: BLE001  # a fault of ours must not leave certificates unrenewed for good
            last_frame = extract_tb(crash.__traceback__)[-1]  # what it says may hold what it was given
            self._set_failure(
                f"a fault of tallygate: {type(crash).__name__} in {last_frame.name}, line {last_frame.lineno}"
            )
        else:
            self._metrics.count_reconcile(success=True)
            self._set_failure("")
        self._set_request_error(self._reconciler.complaint)

    def _report_action(self, action: Step) -> None:
        self._metrics.count_action(action.what)
        fingerprints = [fingerprint(ca) for ca in action.kept.authorities] if action.kept else None
        extra_fields = {"authorities": fingerprints} if fingerprints else {}
        self._log.info("certificates-kept", step=action.what, message=action.why, **extra_fields)

    def _set_failure(self, failure: str) -> None:
        """Remember a failure, or that there is none any more; log it when it is another than before."""
        if failure:
            self._metrics.count_reconcile(success=False)
        if failure and failure != self._failure:
            served = self._reconciler.served
            days_left = (served.certificate.not_valid_after_utc - datetime.now(UTC)).days if served else None
            log = self._log.warning if days_left is not None and days_left > _WARNING_DAYS else self._log.error
            log("certificates-not-kept", message=failure, days_left=days_left)
        elif self._failure and not failure:
            self._log.info("certificates-kept-again")
        self._failure = failure

    def _set_request_error(self, request_error: str) -> None:
        if request_error and request_error != self._request_error:
            self._log.warning("certificates-asked-in-vain", message=request_error)
        self._request_error = request_error


def _choose_source(settings: Settings) -> Source:
    """The cluster that is followed; where none is, that of a kubeconfig that is named, or the one this runs in."""
    if settings.cluster == "kubeconfig" or (settings.cluster == "none" and settings.kubeconfig):
        return Source(settings.kubeconfig, settings.context or None)
    return Source(in_cluster=True)
