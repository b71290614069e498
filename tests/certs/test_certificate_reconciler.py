"""One replica's reconciliation in parts: trusted CAs, the propagation delay, served certificates and skipped writes."""

from dataclasses import dataclass

import pytest

from certs.authority import KeyPair, create_ca, create_serving_certificate
from certs.ca_rotation import RotationAction
from certs.certificate_reconciler import PROPAGATION_DELAY_SECONDS, CertificateReconciler, Timing, WebhookTrust
from certs.secret_state import SecretState, ServingCertificate, convert_key_pair, encode_pem
from tests.certs.world import NAMES, START, World

OLD, NEW, FOREIGN = (create_ca(START) for _ in range(3))
FRESH = 60.0
"""Seconds for which a replica writes by what it has read."""


def _leaf(authority: KeyPair) -> ServingCertificate:
    return convert_key_pair(create_serving_certificate(authority, NAMES, START))


def _bundle(*authorities: KeyPair) -> bytes:
    return encode_pem(each.certificate for each in authorities)


@dataclass
class SlowWorld(World):
    """A world whose bundles are set by hand, one tuple for each configuration; to read them takes `reading` seconds."""

    bundles: tuple[tuple[bytes, ...], ...] = ()
    reading: float = 0.0

    def __post_init__(self) -> None:
        """Begin as any world."""
        super().__init__()

    def read_webhook_trust(self) -> tuple[WebhookTrust, ...]:
        """Read the configurations."""
        found = tuple(WebhookTrust(str(at), "1", each) for at, each in enumerate(self.bundles))
        self.pass_time(self.reading)
        return found

    def publish_bundle(self, trust: WebhookTrust, bundle: bytes) -> None:
        """Write the bundle into a configuration."""
        self.writes += 1
        changed = [*self.bundles]
        changed[int(trust.kind)] = (bundle,) * len(trust.bundles)
        self.bundles = tuple(changed)

    def store_leaf(self, leaf: ServingCertificate) -> None:
        """Replace the Secret by one that is in order and has this serving certificate."""
        self.overwrite(SecretState(NEW, (OLD.certificate,), leaf, START))


@dataclass
class Replica:
    """A replica that served a certificate of the old CA when it started."""

    world: SlowWorld

    def __post_init__(self) -> None:
        """Start."""
        timing = Timing(lambda: self.world.now, lambda: self.world.seconds)
        self.served = _leaf(OLD)
        self.installed: list[ServingCertificate] = []
        self.reconciler = CertificateReconciler(self.world, NAMES, self.installed.append, timing, self.served)

    def read(self, at: float) -> None:
        """Read configurations and Secret at this second, and install what may be served."""
        self.world.pass_time(at - self.world.seconds)
        self.reconciler.observe_configurations()
        self.reconciler.observe_secret()


BOTH, ONLY_OLD = _bundle(OLD, NEW), _bundle(OLD)


def test_a_certificate_of_the_ca_in_use_is_served_at_once() -> None:
    """As after a start: the replica has not yet seen any CA published for as long as the propagation delay."""
    replica = Replica(SlowWorld(bundles=((BOTH,),)))
    renewed = _leaf(OLD)
    replica.world.store_leaf(renewed)
    replica.read(0.0)
    assert replica.installed == [renewed]


def test_a_certificate_of_a_new_ca_is_served_after_the_propagation_delay_and_not_before() -> None:
    replica = Replica(SlowWorld(bundles=((BOTH,), (BOTH,))))
    new = _leaf(NEW)
    replica.world.store_leaf(new)
    for at in (0.0, PROPAGATION_DELAY_SECONDS / 2, PROPAGATION_DELAY_SECONDS - 1):
        replica.read(at)
        assert replica.installed == []
    replica.read(PROPAGATION_DELAY_SECONDS)
    assert replica.installed == [new]


def test_a_certificate_of_a_ca_that_is_not_published_is_never_served_in_place_of_a_good_one() -> None:
    replica = Replica(SlowWorld(bundles=((BOTH,),)))
    replica.world.store_leaf(_leaf(FOREIGN))
    for at in (0.0, PROPAGATION_DELAY_SECONDS, PROPAGATION_DELAY_SECONDS * 3):
        replica.read(at)
    assert replica.installed == []


@pytest.mark.parametrize("bundles", [(), ((),), ((), ())], ids=["no configuration", "one empty", "both empty"])
def test_while_no_webhook_exists_a_new_replica_serves_by_the_secret(bundles: tuple[tuple[bytes, ...], ...]) -> None:
    replica = Replica(SlowWorld(bundles=bundles))
    replica.reconciler.served = None
    leaf = _leaf(NEW)
    replica.world.store_leaf(leaf)
    replica.read(0.0)
    assert replica.installed == [leaf]


def test_the_propagation_delay_begins_again_when_a_ca_was_not_published_for_a_while() -> None:
    replica = Replica(SlowWorld(bundles=((BOTH,),)))
    new = _leaf(NEW)
    replica.world.store_leaf(new)
    replica.read(0.0)
    replica.world.bundles = ((ONLY_OLD,),)
    replica.read(1000.0)
    replica.world.bundles = ((BOTH,),)
    replica.read(2000.0)
    replica.read(2000.0 + PROPAGATION_DELAY_SECONDS - 1)
    assert replica.installed == []
    replica.read(2000.0 + PROPAGATION_DELAY_SECONDS)
    assert replica.installed == [new]


def test_the_propagation_delay_begins_when_the_configurations_have_been_read() -> None:
    """The last of them may have been written just before it was read."""
    replica = Replica(SlowWorld(bundles=((BOTH,),), reading=100.0))
    new = _leaf(NEW)
    replica.world.store_leaf(new)
    replica.read(0.0)
    replica.world.reading = 0.0
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
    replica = Replica(SlowWorld(bundles=PARTIAL[name]))
    new = _leaf(NEW)
    replica.world.store_leaf(new)
    for at in (0.0, PROPAGATION_DELAY_SECONDS, PROPAGATION_DELAY_SECONDS * 2):
        replica.read(at)
    assert replica.installed == []
    replica.world.bundles = ((BOTH,), (BOTH, BOTH))
    replica.read(PROPAGATION_DELAY_SECONDS * 2)
    replica.read(PROPAGATION_DELAY_SECONDS * 3 - 1)
    assert replica.installed == []
    replica.read(PROPAGATION_DELAY_SECONDS * 3)
    assert replica.installed == [new]


@pytest.mark.parametrize("bundles", [pytest.param((), id="no configuration"), pytest.param(((),), id="no webhook")])
def test_the_propagation_delay_begins_again_when_no_webhook_was_registered(
    bundles: tuple[tuple[bytes, ...], ...],
) -> None:
    replica = Replica(SlowWorld(bundles=((BOTH,),)))
    new = _leaf(NEW)
    replica.world.store_leaf(new)
    replica.read(0.0)
    replica.world.bundles = bundles
    replica.read(1.0)
    replica.world.bundles = ((BOTH,),)
    replica.read(PROPAGATION_DELAY_SECONDS)
    assert replica.installed == []
    replica.read(PROPAGATION_DELAY_SECONDS * 2)
    assert replica.installed == [new]


@dataclass(frozen=True)
class Delay:
    """Seconds between two calls of one round, and whether the last of them writes."""

    before_secret: float = 0.0
    before_write: float = 0.0
    reading: float = 0.0
    writes: bool = False


DELAYS = {
    "a round without a delay writes": Delay(writes=True),
    "a round that took as long as it may writes": Delay(before_write=FRESH, writes=True),
    "a round that took longer does not write": Delay(before_write=FRESH + 0.1),
    "the delay may be before the Secret is read": Delay(before_secret=FRESH + 0.1),
    "the time of the first read counts": Delay(reading=FRESH + 0.1),
    "the delays add up": Delay(before_secret=FRESH / 2, before_write=FRESH / 2, reading=0.1),
}


STATES = {
    RotationAction.PUBLISH: ((ONLY_OLD,), SecretState(NEW, (OLD.certificate,), _leaf(OLD), START)),
    RotationAction.ROTATE_CA: (
        (_bundle(NEW, OLD),),
        SecretState(NEW, (OLD.certificate,), _leaf(NEW), START, requested="authority"),
    ),
}


@pytest.mark.parametrize("name", DELAYS)
@pytest.mark.parametrize("action", STATES)
def test_what_was_read_more_than_a_minute_ago_is_read_again_before_anything_is_written(
    name: str, action: RotationAction
) -> None:
    """Configurations and Secret change meanwhile: an older bundle would be published over a newer one."""
    delay = DELAYS[name]
    bundles, kept = STATES[action]
    world = SlowWorld(bundles=(bundles,), reading=delay.reading)
    world.overwrite(kept)
    written = world.writes
    reconciler = Replica(world).reconciler
    reconciler.observe_configurations()
    world.pass_time(delay.before_secret)
    reconciler.observe_secret()
    world.pass_time(delay.before_write)
    step = reconciler.take_action()
    assert (step.action if step else None, world.writes - written) == ((action, 1) if delay.writes else (None, 0))
    if not delay.writes:
        world.reading = 0.0
        step = reconciler.reconcile()
        assert (step.action if step else None, world.writes - written) == (action, 1)
