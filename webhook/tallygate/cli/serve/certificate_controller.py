"""The controller of `serve --tls-secret`: a worker that reconciles the certificates of a Secret for the server.

It reconciles at intervals and soon after a change, and reports metrics. It stands in the command line because the
packages `certs` and `server` do not import each other.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from traceback import extract_tb
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from tallygate.admission.webhook_configuration import CONFIGURATION_NAME
from tallygate.errors import TallygateError
from tallygate.kube.client import ClientConfig
from tallygate.kube.config import ClientConfigError, load_in_cluster_config, load_kubeconfig
from tallygate.server.controllers.ask_address_controller import parse_ask_host
from tallygate.server.controllers.registration_controller import CaSource, create_registration_factory
from tallygate.server.interfaces import ServerSetup
from tallygate.server.lifecycle import ServeError
from tallygate.server.settings.table import Settings
from tallygate.server.telemetry.json_log import FailureLog
from tallygate.server.telemetry.metrics import Telemetry
from tallygate.server.worker import Worker, WorkerPace, WorkerTask
from tallygate.state.kubernetes.ask_address_store import ASK_NAME
from tallygate_certs.ca_rotation import RotationAction, RotationStep
from tallygate_certs.certificate_names import create_service_names, parse_names
from tallygate_certs.certificate_reconciler import CertificateReconciler, ChangedError, Timing
from tallygate_certs.cluster_access import create_client
from tallygate_certs.errors import CertsError
from tallygate_certs.secret_state import ServingCertificate, compute_fingerprint
from tallygate_certs.secret_store import CertificateWatch, KubernetesCertificateStore
from tallygate_certs.served_files import ServedFiles

_DEBOUNCE_SECONDS: Final = 0.05  # from the first change to the reconciliation: both configurations change together
_JITTER: Final = 0.2
_RECONCILE_SECONDS: Final = 10.0  # between two reconciliations
_MIN_RECONCILE_SECONDS: Final = 0.5  # while an action is pending
_RECONCILES_PER_DELAY: Final = 20  # reconciliations in one propagation delay
_START_TIMEOUT_SECONDS: Final = 60.0  # until the first certificate is available
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
        for action in RotationAction:
            self._steps.labels(action)

    def count_action(self, action: RotationAction) -> None:
        self._steps.labels(action).inc()


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
            yield ServerSetup(
                replace(settings, tls_cert=folder.chain, tls_key=folder.key),
                [controller.worker.check],
                controller.create_registration,
                controller.encode_ca_bundle,
            )
        finally:
            controller.worker.stop()


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
    """The worker, its log, metrics and readiness details; the server's own check covers the served certificate."""

    def __init__(self, settings: Settings, folder: ServedFiles, telemetry: Telemetry) -> None:
        self._settings = settings
        self._folder = folder
        self._log = telemetry.log
        self._metrics = CertificateMetrics(telemetry.metrics.registry)
        self._failure_log = FailureLog(self._log_failure, partial(self._log.info, "certificate-rotation-recovered"))
        self._request_errors = FailureLog(partial(self._log.warning, "certificate-request-rejected"))
        self._reconciler, self._watches, client_config = self._create_reconciler()
        remedy = f"see `tallygate certs status`: the CA in the Secret {settings.tls_secret} has to sign for the Service"
        self.encode_ca_bundle = self._reconciler.encode_ca_bundle
        self.create_registration = create_registration_factory(client_config, CaSource(self.encode_ca_bundle, remedy))
        task = WorkerTask(
            name="certificate-rotation",
            run=self._reconcile,
            failure_log=self._failure_log,
            describe=self._describe,
            interrupt=self._watches.stop,
        )
        pace = WorkerPace(interval=self._choose_interval, wake_delay=_DEBOUNCE_SECONDS, jitter=_JITTER)
        self.worker = Worker(task, pace)

    def start(self) -> None:
        """Wait for a certificate, then start the worker.

        Raises:
            ServeError: if no certificate is available within a minute.
        """
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        self.worker.run_once()
        while self._reconciler.served is None:
            if time.monotonic() > deadline:
                secret, failure = self._settings.tls_secret, self._failure_log.failure
                raise ServeError(f"nothing to serve with from the Secret {secret}: {failure}")
            self.worker.wait(_MIN_RECONCILE_SECONDS)
            self.worker.run_once()
        self.worker.start()
        self._watches.start()

    def _describe(self) -> dict[str, object]:
        served = self._reconciler.served
        detail = {
            "secret": self._settings.tls_secret,
            "servedFingerprint": compute_fingerprint(served.certificate) if served else "",
            "failure": self._request_errors.failure,
            "unwatched": self._watches.failure,
        }
        return {name: text for name, text in detail.items() if text}

    def _create_reconciler(self) -> tuple[CertificateReconciler, CertificateWatch, ClientConfig]:
        namespace, slash, name = self._settings.tls_secret.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise ServeError(
                f"tls_secret {self._settings.tls_secret!r}: write NAMESPACE/NAME, as in tallygate-system/tallygate-tls"
            )
        try:
            client_config = _load_client_config(self._settings)
            client = create_client(client_config)
            names = create_service_names(CONFIGURATION_NAME, namespace)
            if self._settings.ask_url:
                host = parse_ask_host(self._settings.ask_url)
                names = names + create_service_names(ASK_NAME, namespace) + parse_names([host])
        except (CertsError, ClientConfigError) as error:
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
        watch = CertificateWatch(client, (namespace, name), CONFIGURATION_NAME, self._wake)
        return reconciler, watch, client_config

    def _install(self, serving_certificate: ServingCertificate) -> None:
        self._folder.write(serving_certificate)
        self._log.info(
            "certificate-installed",
            certificate=compute_fingerprint(serving_certificate.certificate),
            not_after=serving_certificate.certificate.not_valid_after_utc.isoformat(),
        )

    def _wake(self) -> None:
        self.worker.wake()

    def _choose_interval(self) -> float:
        seconds = _RECONCILE_SECONDS
        if self._reconciler.is_pending and not self._failure_log.failure:
            pending_seconds = self._settings.ca_propagation_delay / _RECONCILES_PER_DELAY
            seconds = min(seconds, max(_MIN_RECONCILE_SECONDS, pending_seconds))
        return seconds

    def _reconcile(self) -> bool:
        """Run the pending actions, at most 6."""
        try:
            for step in islice(iter(self._reconciler.reconcile, None), _MAX_ACTIONS):
                self._report_action(step)
        except ChangedError as error:
            self._log.info("certificate-conflict", message=str(error))
            return False
        except Exception as error:  # noqa: BLE001  # `_format_failure` tells a crash from the others
            raise ServeError(_format_failure(error)) from None
        finally:
            self._request_errors.update(self._reconciler.request_error)
        return True

    def _report_action(self, step: RotationStep) -> None:
        self._metrics.count_action(step.action)
        fingerprints = [compute_fingerprint(ca) for ca in step.state.ca_certificates] if step.state else None
        extra_fields = {"authorities": fingerprints} if fingerprints else {}
        self._log.info("certificate-rotated", step=step.action, message=step.reason, **extra_fields)

    def _log_failure(self, *, message: str) -> None:
        served = self._reconciler.served
        days_left = (served.certificate.not_valid_after_utc - datetime.now(UTC)).days if served else None
        log = self._log.warning if days_left is not None and days_left > _WARNING_DAYS else self._log.error
        log("certificate-rotation-failed", message=message, days_left=days_left)


def _format_failure(error: Exception) -> str:
    """Return the text of an expected error, and the location of a crash, whose text may contain secret input."""
    if isinstance(error, (CertsError, TallygateError)):
        return str(error)
    frame = extract_tb(error.__traceback__)[-1]
    return f"a fault of tallygate: {type(error).__name__} in {frame.name}, line {frame.lineno}"


def _load_client_config(settings: Settings) -> ClientConfig:
    """Load the watched cluster; without one the cluster of the given kubeconfig, else the one of this pod.

    Raises:
        ClientConfigError: if the address of the API server is unknown.
    """
    if settings.cluster == "kubeconfig" or (settings.cluster == "none" and settings.kubeconfig):
        return load_kubeconfig(settings.kubeconfig, settings.context or None)
    return load_in_cluster_config()
