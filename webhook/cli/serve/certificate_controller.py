"""The controller of `serve --tls-secret`: a thread that reconciles the certificates of a Secret for the server.

It reconciles at intervals and soon after a change, and reports metrics. It stands in the command line because the
packages `certs` and `server` do not import each other.
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

from certs.ca_rotation import RotationAction, RotationStep
from certs.certificate_names import create_service_names
from certs.certificate_reconciler import CertificateReconciler, ChangedError, Timing
from certs.cluster_access import KubeconfigSource, create_client
from certs.errors import CertsError
from certs.secret_state import ServingCertificate, compute_fingerprint
from certs.secret_store import CertificateWatch, KubernetesCertificateStore
from certs.served_files import ServedFiles
from webhook.admission.webhook_configuration import CONFIGURATION_NAME
from webhook.errors import TallygateError
from webhook.server.interfaces import ReadinessStatus, ServerSetup
from webhook.server.lifecycle import ServeError
from webhook.server.settings.table import Settings
from webhook.server.telemetry.metrics import Telemetry

_RESULTS: Final = ("success", "failure")
DEBOUNCE_SECONDS: Final = 0.05
"""Seconds from the first notification to the reconciliation: both webhook configurations change together."""
PROMPT_CHANGES: Final = 8
"""The number of successive changes with the short delay; a registration causes about five."""
_MAX_DOUBLINGS: Final = 16
_RECONCILE_SECONDS: Final = 10.0  # between two reconciliations
_MIN_RECONCILE_SECONDS: Final = 0.5  # while an action is pending
_RECONCILES_PER_DELAY: Final = 20  # reconciliations in one propagation delay
_START_TIMEOUT_SECONDS: Final = 60.0  # until the first certificate is available
_JOIN_TIMEOUT_SECONDS: Final = 5.0
_WARNING_DAYS: Final = 14
_MAX_ACTIONS: Final = 6  # in one reconciliation: another controller may revert each of them


class CertificateMetrics:
    """Metrics of the certificates in the Secret; every series exists from the start, so a query always finds it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._steps = Counter(
            "tallygate_certificate_steps",
            "Rotation steps of this replica on the Secret of certificates.",
            ("step",),
            registry=registry,
        )
        self._reconciles = Counter(
            "tallygate_certificate_reconcile",
            "Reconciliations of the Secret of certificates and of the published CA bundle.",
            ("result",),
            registry=registry,
        )
        self._last_success = Gauge(
            "tallygate_certificate_last_reconcile_timestamp_seconds",
            "Last successful reconciliation of the Secret of certificates (Unix time).",
            registry=registry,
        )
        for result in _RESULTS:
            self._reconciles.labels(result)
        for action in RotationAction:
            self._steps.labels(action)

    def count_action(self, action: RotationAction) -> None:
        """Count an action."""
        self._steps.labels(action).inc()

    def count_reconcile(self, *, success: bool) -> None:
        """Count a reconciliation."""
        self._reconciles.labels("success" if success else "failure").inc()
        if success:
            self._last_success.set_to_current_time()


class ChangeDebouncer:
    """The debouncer of one waiting thread; `notify` may be called by any thread.

    `sleep` waits for the given seconds, or less when the controller stops.
    """

    def __init__(self, sleep: Callable[[float], object]) -> None:
        self._sleep = sleep
        self._changed = Event()
        self._change_count = 0

    def notify(self) -> None:
        """Report a change or a stop."""
        self._changed.set()

    def wait(self, interval: float) -> None:
        """Wait for the interval in seconds, or until soon after a change.

        The time is random within ±20 %, so that mostly one replica finishes an action before the next one reconciles.
        After `PROMPT_CHANGES` successive changes the delay doubles with each one: another controller may revert the
        changes of this one again and again.
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


@contextmanager
def run_certificate_controller(settings: Settings, telemetry: Telemetry) -> Iterator[ServerSetup]:
    """Reconcile the certificates of `tls_secret` and yield the server's settings and readiness check.

    Raises:
        ServeError: if the settings contradict each other, or no certificate is available within a minute.
    """
    if settings.tls_cert or settings.tls_key:
        raise ServeError("tls_secret takes the place of tls_cert and tls_key: give the one or the others")
    with _open_folder(settings.tls_dir) as folder:
        controller = _CertificateController(settings, folder, telemetry)
        controller.start()
        try:
            yield ServerSetup(replace(settings, tls_cert=folder.chain, tls_key=folder.key), [controller.get_status])
        finally:
            controller.stop()


@contextmanager
def _open_folder(path: Path | None) -> Iterator[ServedFiles]:
    if path:
        yield ServedFiles(path)
        return
    try:
        temporary_folder = tempfile.TemporaryDirectory(prefix="tallygate-")
    except OSError as error:
        raise ServeError(
            f"no temporary folder to hand certificates over in: {error.strerror or error}; name one by tls_dir"
        ) from None
    with temporary_folder as name:
        yield ServedFiles(Path(name))


class _CertificateController:
    """The thread, its log events, metrics and readiness status."""

    def __init__(self, settings: Settings, folder: ServedFiles, telemetry: Telemetry) -> None:
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
        """Wait for a certificate, then start the thread.

        Raises:
            ServeError: if no certificate is available within a minute.
        """
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        self._reconcile()
        while self._reconciler.served is None:
            if time.monotonic() > deadline:
                raise ServeError(f"nothing to serve with from the Secret {self._settings.tls_secret}: {self._failure}")
            self._stop.wait(_MIN_RECONCILE_SECONDS)
            self._reconcile()
        self._thread.start()
        self._watches.start()

    def stop(self) -> None:
        """Stop the thread; a running call is not awaited for more than 5 s."""
        self._stop.set()
        self._debouncer.notify()
        self._watches.stop()
        self._thread.join(_JOIN_TIMEOUT_SECONDS)

    def get_status(self) -> ReadinessStatus:
        """Return the status, which is always ready; it includes the last failures.

        The server's own check covers the served certificate.
        """
        served = self._reconciler.served
        detail: dict[str, object] = {"secret": self._settings.tls_secret}
        if served:
            detail["handedOver"] = compute_fingerprint(served.certificate)
        problems = {"failure": self._failure, "complaint": self._request_error, "unwatched": self._watches.failure}
        return ReadinessStatus(
            "certificate-rotation", ready=True, detail=detail | {name: text for name, text in problems.items() if text}
        )

    def _create_reconciler(self) -> tuple[CertificateReconciler, CertificateWatch]:
        namespace, slash, name = self._settings.tls_secret.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise ServeError(
                f"tls_secret {self._settings.tls_secret!r}: write NAMESPACE/NAME, as in tallygate-system/tallygate-tls"
            )
        try:
            client = create_client(_choose_source(self._settings))
            names = create_service_names(CONFIGURATION_NAME, namespace)
        except CertsError as error:
            raise ServeError(str(error)) from None
        timing = Timing(lambda: datetime.now(UTC), time.monotonic, self._settings.ca_propagation_delay)
        served = self._folder.read(datetime.now(UTC))
        reconciler = CertificateReconciler(
            KubernetesCertificateStore(client, (namespace, name), CONFIGURATION_NAME),
            names,
            self._install,
            timing,
            served,
        )
        return reconciler, CertificateWatch(client, (namespace, name), CONFIGURATION_NAME, self._debouncer.notify)

    def _install(self, serving_certificate: ServingCertificate) -> None:
        self._folder.write(serving_certificate)
        self._log.info(
            "certificate-installed",
            certificate=compute_fingerprint(serving_certificate.certificate),
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
            seconds = min(
                seconds, max(_MIN_RECONCILE_SECONDS, self._settings.ca_propagation_delay / _RECONCILES_PER_DELAY)
            )
        return seconds

    def _reconcile(self) -> None:
        """Run the pending actions, at most 6, and report a failure."""
        try:
            for step in islice(iter(self._reconciler.reconcile, None), _MAX_ACTIONS):
                self._report_action(step)
        except ChangedError as error:
            self._log.info("certificate-conflict", message=str(error))
        except (CertsError, TallygateError) as error:
            self._set_failure(str(error))
        except Exception as crash:  # noqa: BLE001  # a fault of ours must not leave certificates unrenewed for good
            last_frame = extract_tb(crash.__traceback__)[-1]  # the exception's text may contain secret input
            self._set_failure(
                f"a fault of tallygate: {type(crash).__name__} in {last_frame.name}, line {last_frame.lineno}"
            )
        else:
            self._metrics.count_reconcile(success=True)
            self._set_failure("")
        self._set_request_error(self._reconciler.request_error)

    def _report_action(self, step: RotationStep) -> None:
        self._metrics.count_action(step.action)
        fingerprints = [compute_fingerprint(ca) for ca in step.state.ca_certificates] if step.state else None
        extra_fields = {"authorities": fingerprints} if fingerprints else {}
        self._log.info("certificate-rotated", step=step.action, message=step.reason, **extra_fields)

    def _set_failure(self, failure: str) -> None:
        """Store the failure, which is empty after a success; log it when it changes."""
        if failure:
            self._metrics.count_reconcile(success=False)
        if failure and failure != self._failure:
            served = self._reconciler.served
            days_left = (served.certificate.not_valid_after_utc - datetime.now(UTC)).days if served else None
            log = self._log.warning if days_left is not None and days_left > _WARNING_DAYS else self._log.error
            log("certificate-rotation-failed", message=failure, days_left=days_left)
        elif self._failure and not failure:
            self._log.info("certificate-rotation-recovered")
        self._failure = failure

    def _set_request_error(self, request_error: str) -> None:
        if request_error and request_error != self._request_error:
            self._log.warning("certificate-request-rejected", message=request_error)
        self._request_error = request_error


def _choose_source(settings: Settings) -> KubeconfigSource:
    """Return the watched cluster; without one the cluster of the given kubeconfig, else the one of this pod."""
    if settings.cluster == "kubeconfig" or (settings.cluster == "none" and settings.kubeconfig):
        return KubeconfigSource(settings.kubeconfig, settings.context or None)
    return KubeconfigSource(in_cluster=True)
