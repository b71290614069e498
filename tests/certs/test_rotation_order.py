"""The order of a CA rotation under every schedule: no API server ever meets an untrusted certificate.

Two replicas have clocks two hours apart, two API servers are up to nearly an hour late, and every process may end at
any point. Mutants with a wrong order show that the model detects errors.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import cache, partial

import pytest
from cryptography import x509
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tallygate_certs import ca_rotation, certificate_reconciler, secret_state
from tallygate_certs.certificate_reconciler import PROPAGATION_DELAY_SECONDS, CertificateReconciler
from tallygate_certs.secret_state import ServingCertificate
from tests.certs import simulated_cluster
from tests.certs.simulated_cluster import Replica, SimulatedCluster, request_renewal

DAY = 86400.0
_TIMES = (
    1.0,
    30.0,
    PROPAGATION_DELAY_SECONDS * 0.3,
    PROPAGATION_DELAY_SECONDS * 1.1,
    DAY * 10,
    DAY * 31,
    DAY * 89,
    DAY * 92,
)
_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_SETTINGS = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
_MUTANT_SETTINGS = settings(
    _SETTINGS, max_examples=3000, phases=[Phase.generate], report_multiple_bugs=False, print_blob=False
)

replicas = st.sampled_from([0, 1])


@pytest.fixture(autouse=True)
def _cache_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache parsed bundles and verified signatures, since few of a hundred thousand of them differ."""
    read = cache(secret_state.parse_ca_certificates)
    for module in (certificate_reconciler, simulated_cluster):
        monkeypatch.setattr(module, "parse_ca_certificates", read)
    monkeypatch.setattr(ServingCertificate, "is_signed_by", cache(ServingCertificate.is_signed_by))


class RotationOrder(RuleBasedStateMachine):
    """The events of a cluster whose Secret only reconcilers write."""

    create_reconciler: Callable[..., CertificateReconciler] = CertificateReconciler

    @initialize()
    def begin(self) -> None:
        """Start both replicas, and wait until every bundle is published and propagated."""
        self.cluster = SimulatedCluster()
        self.replicas = [Replica(self.cluster, number, type(self).create_reconciler) for number in range(2)]
        for _ in range(4):
            for each in self.replicas:
                each.run_reconciler()
        self.cluster.pass_time(PROPAGATION_DELAY_SECONDS * 1.1)

    @rule(number=replicas)
    def make_next_call(self, number: int) -> None:
        """Make the next call of a replica."""
        self.replicas[number].step()

    @rule(number=replicas)
    def run_reconciler(self, number: int) -> None:
        """Make all calls of a run of a replica."""
        self.replicas[number].run_reconciler()

    @rule(seconds=st.sampled_from(_TIMES))
    def pass_time(self, seconds: float) -> None:
        """Let time pass without a call of a replica."""
        self.cluster.pass_time(seconds)

    @rule(hours=st.integers(1, 3))
    def run_for_hours(self, hours: int) -> None:
        """Let time pass while both replicas run as usual."""
        for _ in range(hours * 2):
            self.cluster.pass_time(PROPAGATION_DELAY_SECONDS * 0.6)
            for each in self.replicas:
                each.run_reconciler()

    @rule(server=st.sampled_from([0, 1]), kind=st.sampled_from(_KINDS))
    def propagate(self, server: int, kind: str) -> None:
        """Let an API server observe the next version of a configuration."""
        self.cluster.propagate(server, kind)

    @rule(number=replicas, keeps_files=st.booleans())
    def restart(self, number: int, *, keeps_files: bool) -> None:
        """Kill a replica in the middle of a run, and restart it with its files or with none."""
        replica = self.replicas[number]
        replica.start(replica.reconciler.served if keeps_files else None)

    @rule(what=st.sampled_from(["authority", "certificate", "nonsense"]))
    def request_renewal(self, what: str) -> None:
        """Request a renewal as an operator."""
        request_renewal(self.cluster, what)

    @rule()
    def unregister(self) -> None:
        """Delete the webhook configurations."""
        self.cluster.unregister()

    @rule()
    def register(self) -> None:
        """Create the webhook configurations with empty bundles."""
        self.cluster.is_registered = True

    @invariant()
    def check_trust(self) -> None:
        """Check that every replica is trusted, unless its certificate has expired because it did not run."""
        assert all(each.is_trusted() or each.was_late for each in self.replicas)


class SecretLoss(RotationOrder):
    """The events of a cluster whose Secret is also deleted or damaged.

    A replica that has just started then has no certificate, and may have to serve one that is not propagated yet.
    """

    @rule()
    def delete_secret(self) -> None:
        """Delete the Secret."""
        self.cluster.overwrite(None)

    @rule(part=st.sampled_from(["leaf", "authority", "since"]))
    def damage_secret(self, part: str) -> None:
        """Damage a part of the Secret."""
        if self.cluster.secret:
            state = self.cluster.secret.state
            damages = {
                "leaf": replace(state, serving=None),
                "authority": replace(state, ca=None, previous_cas=state.ca_certificates),
                "since": replace(state, ca_since=None),
            }
            self.cluster.overwrite(damages[part])

    @rule()
    def unregister(self) -> None:
        """Do nothing: without a published bundle a replica cannot know which CAs the others use."""

    @invariant()
    def check_trust(self) -> None:
        """Check the trust of every replica that has not just started."""
        assert all(each.is_trusted() or each.was_late or each.is_new for each in self.replicas)


def _run_machine(machine: type[RotationOrder], how: settings = _SETTINGS) -> None:
    run_state_machine_as_test(machine, settings=how)


def test_every_api_server_trusts_every_replica_under_every_schedule() -> None:
    _run_machine(RotationOrder)


def test_a_deleted_or_damaged_secret_harms_no_serving_replica() -> None:
    _run_machine(SecretLoss)


class _ImpatientReconciler(CertificateReconciler):
    """A mutant that serves a certificate as soon as its CA is published."""

    def _is_propagated(self, _: x509.Certificate) -> bool:
        return True


def _retire_at_once(since: datetime) -> datetime:
    return since


def _publish_last(
    rotation_input: ca_rotation.RotationInput, real: Callable[..., ca_rotation.RotationStep | None]
) -> ca_rotation.RotationStep | None:
    """Sign with the new CA first, and publish it then."""
    step = real(rotation_input)
    if step and step.action is ca_rotation.RotationAction.PUBLISH:
        return real(replace(rotation_input, is_published=True, is_propagated=lambda _: True)) or step
    return step


def _ignore_published_cas(
    rotation_input: ca_rotation.RotationInput, real: Callable[..., ca_rotation.RotationStep | None]
) -> object:
    return real(replace(rotation_input, published_cas=(), served=None))


def _create_machine(base: type[RotationOrder], reconciler: type[CertificateReconciler]) -> type[RotationOrder]:
    return type("Wrong", (base,), {"create_reconciler": reconciler})


def test_serving_before_the_propagation_is_detected() -> None:
    with pytest.raises(AssertionError):
        _run_machine(_create_machine(RotationOrder, _ImpatientReconciler), _MUTANT_SETTINGS)


class _ReversedReconciler(CertificateReconciler):
    """A mutant that reads the Secret before the configurations."""

    def observe_configurations(self) -> None:
        """Read the Secret."""
        super().observe_secret()

    def observe_secret(self) -> None:
        """Read the configurations."""
        super().observe_configurations()


def _stays_trusted_beside_slow_replica(reconciler: Callable[..., CertificateReconciler]) -> bool:
    """Return whether a replica that rotates the CA is trusted after the other one has paused in the middle of a run."""
    cluster = SimulatedCluster()
    slow, quick = (Replica(cluster, number, reconciler) for number in range(2))
    for each in (slow, quick) * 4:
        each.run_reconciler()
    cluster.pass_time(PROPAGATION_DELAY_SECONDS * 1.1)
    slow.step()
    request_renewal(cluster, "authority")
    for _ in range(6):
        quick.run_reconciler()
        cluster.pass_time(PROPAGATION_DELAY_SECONDS * 1.1)
    slow.step()
    slow.step()
    cluster.pass_time(PROPAGATION_DELAY_SECONDS)
    return quick.is_trusted()


def test_a_slow_replica_publishes_no_older_secret_over_a_newer_one() -> None:
    assert _stays_trusted_beside_slow_replica(CertificateReconciler)


def test_reading_the_secret_before_the_configurations_is_detected() -> None:
    assert not _stays_trusted_beside_slow_replica(_ReversedReconciler)


def _stays_trusted_without_runs() -> bool:
    """Return whether a replica that never runs during a CA rotation is always trusted."""
    cluster = SimulatedCluster()
    quick, lagging = (Replica(cluster, number) for number in range(2))
    for each in (quick, lagging) * 4:
        each.run_reconciler()
    request_renewal(cluster, "authority")
    trusted = []
    for _ in range(8):
        cluster.pass_time(PROPAGATION_DELAY_SECONDS * 1.1)
        quick.run_reconciler()
        trusted.append(lagging.is_trusted())
    assert quick.reconciler.served != lagging.reconciler.served
    return all(trusted)


def test_a_lagging_replica_is_always_trusted() -> None:
    assert _stays_trusted_without_runs()


def test_a_replica_installs_the_older_certificate_of_a_restored_cluster_at_its_next_run() -> None:
    cluster = SimulatedCluster()
    replica = Replica(cluster, 0)
    for _ in range(4):
        replica.run_reconciler()
    assert cluster.secret
    secret, bundle = cluster.secret.state, cluster.configurations[_KINDS[0]].history[-1][1]
    request_renewal(cluster, "authority")
    for _ in range(6):
        cluster.pass_time(PROPAGATION_DELAY_SECONDS * 1.1)
        replica.run_reconciler()
    assert replica.reconciler.served != secret.serving
    cluster.overwrite(secret)
    for each in cluster.configurations.values():
        each.history.append((cluster.seconds, bundle))
    cluster.pass_time(PROPAGATION_DELAY_SECONDS)
    assert not replica.is_trusted()
    replica.run_reconciler()
    assert replica.reconciler.served == secret.serving
    assert replica.is_trusted()


def test_retiring_the_old_ca_at_once_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ca_rotation, "get_retirement_time", _retire_at_once)
    assert not _stays_trusted_without_runs()


def test_publishing_after_signing_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_reconciler, "choose_step", partial(_publish_last, real=ca_rotation.choose_step))
    with pytest.raises(AssertionError):
        _run_machine(_create_machine(RotationOrder, _ImpatientReconciler), _MUTANT_SETTINGS)


def test_rebuilding_a_lost_secret_without_the_published_cas_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        certificate_reconciler, "choose_step", partial(_ignore_published_cas, real=ca_rotation.choose_step)
    )
    with pytest.raises(AssertionError):
        _run_machine(SecretLoss, _MUTANT_SETTINGS)
