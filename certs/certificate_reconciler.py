"""One replica's part in keeping the certificates: it looks, serves what may be served, and takes the step that is due.

Every replica does the same, and none leads: each step is written only if nothing was changed since it was looked at,
so of two that take it at once one is refused, and looks again. The order of looking matters: first what is published,
then the Secret. Whoever publishes then replaces only what stood there before the Secret was read, so an older Secret
is never published over a newer one.

A replica believes no clock but its own about what is settled: it counts from when it saw an authority published, and
anew after a start.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cryptography import x509

from certs.ca_rotation import RotationAction, RotationInput, RotationStep, choose_step, find_request_error
from certs.certificate_names import CertificateNames
from certs.secret_state import SecretState, ServingCertificate, encode_pem, parse_ca_certificates

PROPAGATION_DELAY_SECONDS = 3600.0
"""Seconds from when a new authority is seen published until it signs what is served. API servers take up a changed
configuration within a second; one that is cut off from its store for longer cannot create anything either."""

_MAX_AGE_SECONDS = 60.0  # seconds; what was looked at longer ago is looked at again before anything is done about it


class ChangedError(Exception):
    """Somebody else has changed it since it was looked at; nothing was written."""


@dataclass(frozen=True, slots=True)
class WebhookTrust:
    """A webhook configuration: what each of its webhooks trusts, and the names that they are called by."""

    kind: str
    version: str
    bundles: tuple[bytes, ...]
    names: CertificateNames | None = None


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """The Secret as it was found: what of it can be used, and by what a change of it is seen."""

    version: str
    state: SecretState


class CertificateStore(Protocol):
    """Where the Secret and the webhook configurations are."""

    def read_webhook_trust(self) -> tuple[WebhookTrust, ...]:
        """Those configurations that there are. Raises CertsError when that cannot be told."""
        ...

    def read_secret(self) -> StoredSecret | None:
        """The Secret, if there is one. Raises CertsError when that cannot be told."""
        ...

    def write_secret(self, state: SecretState, expected: StoredSecret | None) -> None:
        """Write the Secret in the place of what was found. Raises ChangedError, CertsError."""
        ...

    def publish_bundle(self, expected: WebhookTrust, bundle: bytes) -> None:
        """Let all webhooks of a configuration trust this. Raises ChangedError, CertsError."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """The time for certificates, the seconds to count by, and how many of them settling takes."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    propagation_delay: float = PROPAGATION_DELAY_SECONDS


class CertificateReconciler:
    """One replica's. To be used by one thread.

    `names` are those by which the gate is called where no registration says so, `take` puts a leaf in force here,
    and `served` is the one that is in force already.
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
        """Whether something is under way that wants to be looked at soon."""
        state = self._secret.state if self._secret else None
        if state is None or state.ca is None or state.serving is None or state.serving != self.served:
            return True
        return not state.serving.is_signed_by(state.ca.certificate)

    def reconcile(self) -> RotationStep | None:
        """Look, serve what may be served, and take the step that is due; the step, if one was taken.

        Raises:
            ChangedError: somebody else was quicker; look again.
            CertsError: something cannot be read or written.
        """
        self.observe_configurations()
        self.observe_secret()
        return self.take_action()

    def observe_configurations(self) -> None:
        """See what API servers are told to trust."""
        self._observe_configurations()

    def _observe_configurations(self) -> None:
        self._observed_at = self._timing.monotonic()
        self._webhook_trust = self._store.read_webhook_trust()
        trusted_by_all = self._list_trusted_by_all()
        observed_at = self._timing.monotonic()
        self._trusted_since = {each: self._trusted_since.get(each, observed_at) for each in trusted_by_all}

    def observe_secret(self) -> None:
        """See what is kept, and serve what of it may be served."""
        self._secret = self._store.read_secret()
        if not self._has_current_ca():
            # The CAs published until now are the only evidence of the CA that signed the other replicas' certificates.
            self._observe_configurations()
        serving = self._secret.state.serving if self._secret else None
        if serving and serving != self.served and self._can_serve(serving):
            self._install(serving)
            self.served = serving

    def take_action(self) -> RotationStep | None:
        """Take the step that is due."""
        state = self._secret.state if self._secret else None
        self.request_error = find_request_error(state) if state else ""
        if self._timing.monotonic() - self._observed_at > _MAX_AGE_SECONDS:
            return None
        step = choose_step(self._create_input(state))
        if step and step.action is RotationAction.PUBLISH and state:
            bundle = encode_pem(state.ca_certificates)
            for each in self._webhook_trust:
                if any(trusted != bundle for trusted in each.bundles):
                    self._store.publish_bundle(each, bundle)
        elif step and step.state:
            self._store.write_secret(step.state, self._secret)
        return step

    def _create_input(self, state: SecretState | None) -> RotationInput:
        bundle = encode_pem(state.ca_certificates) if state else b""
        bundles = [each for found in self._webhook_trust for each in found.bundles]
        return RotationInput(
            state=state,
            published_cas=tuple(dict.fromkeys(each for text in bundles for each in parse_ca_certificates(text))),
            is_published=all(text == bundle for text in bundles),
            is_propagated=self._is_propagated,
            served=self.served,
            names=self._merge_names(),
            now=self._timing.now(),
        )

    def _merge_names(self) -> CertificateNames:
        names = self._names
        for found in self._webhook_trust:
            names = names + found.names if found.names else names
        return names

    def _has_current_ca(self) -> bool:
        state = self._secret.state if self._secret else None
        return state is not None and state.ca is not None and state.ca_since is not None

    def _can_serve(self, serving: ServingCertificate) -> bool:
        """Whether all who call take it: now, when there is nothing better to serve with, else for sure."""
        now, served = self._timing.now(), self.served
        if not self._webhook_trust:
            trusting: Iterable[x509.Certificate] = self._secret.state.ca_certificates if self._secret else ()
        else:
            trusting = self._trusted_since
        signers = [each for each in trusting if serving.is_trusted_by([each], now)]
        if served is None or not served.is_trusted_by(trusting, now):
            return bool(signers)
        return any(self._is_propagated(each) or served.is_signed_by(each) for each in signers)

    def _is_propagated(self, ca: x509.Certificate) -> bool:
        trusted_since = self._trusted_since.get(ca)
        return trusted_since is not None and self._timing.monotonic() >= trusted_since + self._timing.propagation_delay

    def _list_trusted_by_all(self) -> list[x509.Certificate]:
        bundles = [parse_ca_certificates(text) for found in self._webhook_trust for text in found.bundles]
        return [each for each in dict.fromkeys(bundles[0]) if all(each in some for some in bundles)] if bundles else []
