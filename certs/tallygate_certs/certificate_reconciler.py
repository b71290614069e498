"""The certificate reconciler of one replica: it reads the objects, serves a trusted certificate, and takes a due step.

All replicas do the same, without a leader. Each write succeeds only if the object is unchanged since it was read: of
two replicas that take a step at once, the API server refuses one, and that replica reads again. The order of reads
matters: first the webhook configurations, then the Secret. A replica that publishes then replaces only a bundle that
is older than its read of the Secret, so an older Secret is never published over a newer one.

A replica uses only its own clock to decide whether a CA is propagated: it counts from the time at which it read the CA
in the configurations, and starts again from zero after a restart.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cryptography import x509

from tallygate_certs.ca_rotation import RotationAction, RotationInput, RotationStep, choose_step, find_request_error
from tallygate_certs.certificate_names import CertificateNames
from tallygate_certs.secret_state import SecretState, ServingCertificate, encode_pem, parse_ca_certificates

PROPAGATION_DELAY_SECONDS = 3600.0
"""Seconds from the first read of a published CA until it signs the serving certificate. API servers reload a changed
configuration within a second; an API server that is cut off from its store for longer cannot create objects either."""

_MAX_AGE_SECONDS = 60.0  # seconds; older reads are repeated before a step is taken


class ChangedError(Exception):
    """A conflict: another client changed the object since it was read; nothing was written."""


@dataclass(frozen=True, slots=True)
class WebhookTrust:
    """A webhook configuration: the CA bundle of each of its webhooks, and the names by which API servers call them."""

    kind: str
    version: str
    bundles: tuple[bytes, ...]
    names: CertificateNames | None = None


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """The Secret as it was read: its valid parts, and its resource version."""

    version: str
    state: SecretState


class CertificateStore(Protocol):
    """A store of the Secret and the webhook configurations."""

    def read_webhook_trust(self) -> tuple[WebhookTrust, ...]:
        """Return the webhook configurations that exist. Raises CertsError if they cannot be read."""
        ...

    def read_secret(self) -> StoredSecret | None:
        """Return the Secret, or None if it does not exist. Raises CertsError if it cannot be read."""
        ...

    def write_secret(self, state: SecretState, expected: StoredSecret | None) -> None:
        """Create the Secret, or replace the expected version of it. Raises ChangedError, CertsError."""
        ...

    def publish_bundle(self, expected: WebhookTrust, bundle: bytes) -> None:
        """Write the CA bundle into all webhooks of a configuration. Raises ChangedError, CertsError."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """The wall clock for certificates, a monotonic clock in seconds, and the propagation delay in seconds."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    propagation_delay: float = PROPAGATION_DELAY_SECONDS


class CertificateReconciler:
    """The certificate reconciler of one replica, for use by one thread.

    `names` are the names by which API servers call the gate without a webhook configuration. `install` activates a
    serving certificate in this replica, and `served` is the one that is active already.
    """

    def __init__(
        self,
        store: CertificateStore,
        names: CertificateNames,
        install: Callable[[ServingCertificate], None],
        timing: Timing,
        served: ServingCertificate | None = None,
    ) -> None:
        self._store = store
        self._names = names
        self._install = install
        self._timing = timing
        self._trusted_since: dict[x509.Certificate, float] = {}
        self._webhook_trust: tuple[WebhookTrust, ...] = ()
        self._secret: StoredSecret | None = None
        self._observed_at = timing.monotonic()
        self.served = served
        self.request_error = ""

    @property
    def is_pending(self) -> bool:
        """Whether a rotation is unfinished, so that the next reconciliation should follow soon."""
        state = self._secret.state if self._secret else None
        if state is None or state.ca is None or state.serving is None or state.serving != self.served:
            return True
        return not state.serving.is_signed_by(state.ca.certificate)

    def encode_ca_bundle(self) -> bytes:
        """Return the PEM of all CAs in the Secret as it was last read; b"" without a Secret. Any thread may call it."""
        secret = self._secret
        return encode_pem(secret.state.ca_certificates) if secret else b""

    def reconcile(self) -> RotationStep | None:
        """Read the objects, serve a trusted certificate, and take the step that is due; return the step, or None.

        Raises:
            ChangedError: if another client was quicker; the caller reconciles again.
            CertsError: if an object cannot be read or written.
        """
        self.observe_configurations()
        self.observe_secret()
        return self.take_action()

    def observe_configurations(self) -> None:
        """Read the CA bundles of the webhook configurations."""
        self._observe_configurations()

    def _observe_configurations(self) -> None:
        self._observed_at = self._timing.monotonic()
        self._webhook_trust = self._store.read_webhook_trust()
        trusted_by_all = self._list_trusted_by_all()
        observed_at = self._timing.monotonic()
        self._trusted_since = {
            certificate: self._trusted_since.get(certificate, observed_at) for certificate in trusted_by_all
        }

    def observe_secret(self) -> None:
        """Read the Secret, and serve its certificate if the clients trust it."""
        self._secret = self._store.read_secret()
        if not self._has_current_ca():
            # The CAs published until now are the only evidence of the CA that signed the other replicas' certificates.
            self._observe_configurations()
        serving = self._secret.state.serving if self._secret else None
        if serving and serving != self.served and self._can_serve(serving):
            self._install(serving)
            self.served = serving

    def take_action(self) -> RotationStep | None:
        state = self._secret.state if self._secret else None
        self.request_error = find_request_error(state) if state else ""
        if self._timing.monotonic() - self._observed_at > _MAX_AGE_SECONDS:
            return None
        step = choose_step(self._create_input(state))
        if step and step.action is RotationAction.PUBLISH and state:
            bundle = encode_pem(state.ca_certificates)
            for trust in self._webhook_trust:
                if any(trusted != bundle for trusted in trust.bundles):
                    self._store.publish_bundle(trust, bundle)
        elif step and step.state:
            self._store.write_secret(step.state, self._secret)
        return step

    def _create_input(self, state: SecretState | None) -> RotationInput:
        bundle = encode_pem(state.ca_certificates) if state else b""
        bundles = [bundle for trust in self._webhook_trust for bundle in trust.bundles]
        return RotationInput(
            state=state,
            published_cas=tuple(
                dict.fromkeys(certificate for text in bundles for certificate in parse_ca_certificates(text))
            ),
            is_published=all(text == bundle for text in bundles),
            is_propagated=self._is_propagated,
            served=self.served,
            names=self._merge_names(),
            now=self._timing.now(),
        )

    def _merge_names(self) -> CertificateNames:
        names = self._names
        for trust in self._webhook_trust:
            names = names + trust.names if trust.names else names
        return names

    def _has_current_ca(self) -> bool:
        state = self._secret.state if self._secret else None
        return state is not None and state.ca is not None and state.ca_since is not None

    def _can_serve(self, serving: ServingCertificate) -> bool:
        """Return whether all clients trust it: now, if the replica has no better certificate, else with certainty."""
        now, served = self._timing.now(), self.served
        if not any(trust.bundles for trust in self._webhook_trust):  # no API server calls the gate yet
            trusting: Iterable[x509.Certificate] = self._secret.state.ca_certificates if self._secret else ()
        else:
            trusting = self._trusted_since
        signers = [certificate for certificate in trusting if serving.is_trusted_by([certificate], now)]
        if served is None or not served.is_trusted_by(trusting, now):
            return bool(signers)
        return any(self._is_propagated(signer) or served.is_signed_by(signer) for signer in signers)

    def _is_propagated(self, ca: x509.Certificate) -> bool:
        trusted_since = self._trusted_since.get(ca)
        return trusted_since is not None and self._timing.monotonic() >= trusted_since + self._timing.propagation_delay

    def _list_trusted_by_all(self) -> list[x509.Certificate]:
        bundles = [parse_ca_certificates(text) for trust in self._webhook_trust for text in trust.bundles]
        return (
            [fromkey for fromkey in dict.fromkeys(bundles[0]) if all(fromkey in cas for cas in bundles)]
            if bundles
            else []
        )
