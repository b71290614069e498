"""One replica's reconciliation in parts: trusted CAs, the propagation delay, served certificates and skipped writes."""

from dataclasses import dataclass

import pytest

from tallygate_certs.authority import KeyPair, create_ca, create_serving_certificate
from tallygate_certs.ca_rotation import RotationAction
from tallygate_certs.certificate_reconciler import (
    PROPAGATION_DELAY_SECONDS,
    CertificateReconciler,
    Timing,
    WebhookTrust,
)
from tallygate_certs.secret_state import SecretState, ServingCertificate, convert_key_pair, encode_pem
from tests.certs.simulated_cluster import NAMES, START, SimulatedCluster

OLD, NEW, FOREIGN = (create_ca(START) for _ in range(3))
FRESH = 60.0
"""Seconds for which a replica writes on the basis of a read."""


def _create_serving_pair(authority: KeyPair) -> ServingCertificate:
    return convert_key_pair(create_serving_certificate(authority, NAMES, START))


def _bundle(*authorities: KeyPair) -> bytes:
    return encode_pem(each.certificate for each in authorities)


@dataclass
class SlowCluster(SimulatedCluster):
    """A cluster whose bundles are set by hand, one tuple for each configuration, and read in `reading` seconds."""

    bundles: tuple[tuple[bytes, ...], ...] = ()
    reading: float = 0.0

    def __post_init__(self) -> None:
        """Create the empty cluster."""
        super().__init__()

    def read_webhook_trust(self) -> tuple[WebhookTrust, ...]:
        """Read the configurations."""
        found = tuple(WebhookTrust(str(at), "1", each) for at, each in enumerate(self.bundles))
        self.pass_time(self.reading)
        return found

    def publish_bundle(self, trust: WebhookTrust, bundle: bytes) -> None:
        """Write the bundle into a configuration."""
        self.writes += 1
        bundles = [*self.bundles]
        bundles[int(trust.kind)] = (bundle,) * len(trust.bundles)
        self.bundles = tuple(bundles)

    def store_serving_pair(self, serving_pair: ServingCertificate) -> None:
        """Replace the Secret by one that is in order and has this serving certificate."""
        self.overwrite(SecretState(NEW, (OLD.certificate,), serving_pair, START))


@dataclass
class Replica:
    """A replica that served a certificate of the old CA when it started."""

    cluster: SlowCluster

    def __post_init__(self) -> None:
        """Start the replica."""
        timing = Timing(lambda: self.cluster.now, lambda: self.cluster.seconds)
        self.served = _create_serving_pair(OLD)
        self.installed: list[ServingCertificate] = []
        self.reconciler = CertificateReconciler(self.cluster, NAMES, self.installed.append, timing, self.served)

    def read(self, at: float) -> None:
        """Read configurations and Secret at this second, and install what may be served."""
        self.cluster.pass_time(at - self.cluster.seconds)
        self.reconciler.observe_configurations()
        self.reconciler.observe_secret()


BOTH, ONLY_OLD = _bundle(OLD, NEW), _bundle(OLD)


def test_a_certificate_of_the_ca_in_use_is_served_at_once() -> None:
    """Serve it as after a start, when no CA has yet been published for as long as the propagation delay."""
    replica = Replica(SlowCluster(bundles=((BOTH,),)))
    renewed = _create_serving_pair(OLD)
    replica.cluster.store_serving_pair(renewed)
    replica.read(0.0)
    assert replica.installed == [renewed]


def test_a_certificate_of_a_new_ca_is_served_after_the_propagation_delay_and_not_before() -> None:
    replica = Replica(SlowCluster(bundles=((BOTH,), (BOTH,))))
    new = _create_serving_pair(NEW)
    replica.cluster.store_serving_pair(new)
    for at in (0.0, PROPAGATION_DELAY_SECONDS / 2, PROPAGATION_DELAY_SECONDS - 1):
        replica.read(at)
        assert replica.installed == []
    replica.read(PROPAGATION_DELAY_SECONDS)
    assert replica.installed == [new]


def test_a_certificate_of_a_ca_that_is_not_published_is_never_served_in_place_of_a_good_one() -> None:
    replica = Replica(SlowCluster(bundles=((BOTH,),)))
    replica.cluster.store_serving_pair(_create_serving_pair(FOREIGN))
    for at in (0.0, PROPAGATION_DELAY_SECONDS, PROPAGATION_DELAY_SECONDS * 3):
        replica.read(at)
    assert replica.installed == []


@pytest.mark.parametrize("bundles", [(), ((),), ((), ())], ids=["no configuration", "one empty", "both empty"])
def test_while_no_webhook_exists_a_new_replica_serves_by_the_secret(bundles: tuple[tuple[bytes, ...], ...]) -> None:
    replica = Replica(SlowCluster(bundles=bundles))
    replica.reconciler.served = None
    serving_pair = _create_serving_pair(NEW)
    replica.cluster.store_serving_pair(serving_pair)
    replica.read(0.0)
    assert replica.installed == [serving_pair]


def test_the_propagation_delay_begins_again_when_a_ca_was_not_published_for_a_while() -> None:
    replica = Replica(SlowCluster(bundles=((BOTH,),)))
    new = _create_serving_pair(NEW)
    replica.cluster.store_serving_pair(new)
    replica.read(0.0)
    replica.cluster.bundles = ((ONLY_OLD,),)
    replica.read(1000.0)
    replica.cluster.bundles = ((BOTH,),)
    replica.read(2000.0)
    replica.read(2000.0 + PROPAGATION_DELAY_SECONDS - 1)
    assert replica.installed == []
    replica.read(2000.0 + PROPAGATION_DELAY_SECONDS)
    assert replica.installed == [new]


def test_the_propagation_delay_begins_when_the_configurations_have_been_read() -> None:
    """Start the delay late, since the last configuration may have been written just before it was read."""
    replica = Replica(SlowCluster(bundles=((BOTH,),), reading=100.0))
    new = _create_serving_pair(NEW)
    replica.cluster.store_serving_pair(new)
    replica.read(0.0)
    replica.cluster.reading = 0.0
    replica.read(PROPAGATION_DELAY_SECONDS + 99)
    assert replica.installed == []
    replica.read(PROPAGATION_DELAY_SECONDS + 100)
    assert replica.installed == [new]


PARTIAL = {
    "the first configuration": ((BOTH,), (ONLY_OLD,)),
    "the last configuration": ((ONLY_OLD,), (BOTH,)),
    "the first webhook of one configuration": ((BOTH, ONLY_OLD),),
    "the last webhook of one configuration": ((ONLY_OLD, BOTH),),
    "all webhooks but one without a bundle": ((BOTH, BOTH), (b"", BOTH)),
}


@pytest.mark.parametrize("name", PARTIAL)
def test_the_propagation_delay_begins_when_every_webhook_trusts_the_ca_and_not_when_one_does(name: str) -> None:
    replica = Replica(SlowCluster(bundles=PARTIAL[name]))
    new = _create_serving_pair(NEW)
    replica.cluster.store_serving_pair(new)
    for at in (0.0, PROPAGATION_DELAY_SECONDS, PROPAGATION_DELAY_SECONDS * 2):
        replica.read(at)
    assert replica.installed == []
    replica.cluster.bundles = ((BOTH,), (BOTH, BOTH))
    replica.read(PROPAGATION_DELAY_SECONDS * 2)
    replica.read(PROPAGATION_DELAY_SECONDS * 3 - 1)
    assert replica.installed == []
    replica.read(PROPAGATION_DELAY_SECONDS * 3)
    assert replica.installed == [new]


@pytest.mark.parametrize("bundles", [pytest.param((), id="no configuration"), pytest.param(((),), id="no webhook")])
def test_the_propagation_delay_begins_again_when_no_webhook_was_registered(
    bundles: tuple[tuple[bytes, ...], ...],
) -> None:
    replica = Replica(SlowCluster(bundles=((BOTH,),)))
    new = _create_serving_pair(NEW)
    replica.cluster.store_serving_pair(new)
    replica.read(0.0)
    replica.cluster.bundles = bundles
    replica.read(1.0)
    replica.cluster.bundles = ((BOTH,),)
    replica.read(PROPAGATION_DELAY_SECONDS)
    assert replica.installed == []
    replica.read(PROPAGATION_DELAY_SECONDS * 2)
    assert replica.installed == [new]


@dataclass(frozen=True)
class RunDelay:
    """Seconds between the calls of one run, and whether the last call writes."""

    before_secret: float = 0.0
    before_write: float = 0.0
    reading: float = 0.0
    writes: bool = False


DELAYS = {
    "a run without a delay writes": RunDelay(writes=True),
    "a run that took as long as it may writes": RunDelay(before_write=FRESH, writes=True),
    "a run that took longer does not write": RunDelay(before_write=FRESH + 0.1),
    "the delay may be before the Secret is read": RunDelay(before_secret=FRESH + 0.1),
    "the time of the first read counts": RunDelay(reading=FRESH + 0.1),
    "the delays add up": RunDelay(before_secret=FRESH / 2, before_write=FRESH / 2, reading=0.1),
}


STATES = {
    RotationAction.PUBLISH: ((ONLY_OLD,), SecretState(NEW, (OLD.certificate,), _create_serving_pair(OLD), START)),
    RotationAction.ROTATE_CA: (
        (_bundle(NEW, OLD),),
        SecretState(NEW, (OLD.certificate,), _create_serving_pair(NEW), START, requested="authority"),
    ),
}


@pytest.mark.parametrize("name", DELAYS)
@pytest.mark.parametrize("action", STATES)
def test_data_that_was_read_more_than_a_minute_ago_is_read_again_before_a_write(
    name: str, action: RotationAction
) -> None:
    """Prevent that an older bundle is published over a newer one, since the objects may change meanwhile."""
    delay = DELAYS[name]
    bundles, state = STATES[action]
    cluster = SlowCluster(bundles=(bundles,), reading=delay.reading)
    cluster.overwrite(state)
    written = cluster.writes
    reconciler = Replica(cluster).reconciler
    reconciler.observe_configurations()
    cluster.pass_time(delay.before_secret)
    reconciler.observe_secret()
    cluster.pass_time(delay.before_write)
    step = reconciler.take_action()
    assert (step.action if step else None, cluster.writes - written) == ((action, 1) if delay.writes else (None, 0))
    if not delay.writes:
        cluster.reading = 0.0
        step = reconciler.reconcile()
        assert (step.action if step else None, cluster.writes - written) == (action, 1)
