"""The order of a renewal, tried in every way: at no time does an API server meet a certificate that it does not trust.

Two replicas with clocks two hours apart, two API servers that are up to nearly an hour late, everything killed at any
point. That the model can tell right from wrong is shown by orders that are wrong: each is found out.
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

from certs import ca_rotation, secret_state
from certs import certificate_reconciler as keeping
from certs.certificate_reconciler import PROPAGATION_DELAY_SECONDS, CertificateReconciler
from certs.secret_state import ServingCertificate
from tests.certs import world as around
from tests.certs.world import Replica, World, ask

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
_HUNT = settings(_SETTINGS, max_examples=3000, phases=[Phase.generate], report_multiple_bugs=False, print_blob=False)

replicas = st.sampled_from([0, 1])


@pytest.fixture(autouse=True)
def _each_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a text holds and who has signed what never changes: few of a hundred thousand answers are new."""
    read = cache(secret_state.parse_ca_certificates)
    for module in (keeping, around):
        monkeypatch.setattr(module, "parse_ca_certificates", read)
    monkeypatch.setattr(ServingCertificate, "is_signed_by", cache(ServingCertificate.is_signed_by))


class Order(RuleBasedStateMachine):
    """What may happen where nobody touches the Secret by hand."""

    new: Callable[..., CertificateReconciler] = CertificateReconciler

    @initialize()
    def begin(self) -> None:
        """Both have started, everything is published and taken up."""
        self.world = World()
        self.replicas = [Replica(self.world, number, type(self).new) for number in range(2)]
        for _ in range(4):
            for each in self.replicas:
                each.round()
        self.world.pass_time(PROPAGATION_DELAY_SECONDS * 1.1)

    @rule(number=replicas)
    def call(self, number: int) -> None:
        """A replica makes its next call."""
        self.replicas[number].step()

    @rule(number=replicas)
    def whole_round(self, number: int) -> None:
        """A replica makes a round in one go."""
        self.replicas[number].round()

    @rule(seconds=st.sampled_from(_TIMES))
    def time_passes(self, seconds: float) -> None:
        """Nobody need have done anything meanwhile."""
        self.world.pass_time(seconds)

    @rule(hours=st.integers(1, 3))
    def time_passes_as_usual(self, hours: int) -> None:
        """Everybody makes rounds meanwhile."""
        for _ in range(hours * 2):
            self.world.pass_time(PROPAGATION_DELAY_SECONDS * 0.6)
            for each in self.replicas:
                each.round()

    @rule(server=st.sampled_from([0, 1]), kind=st.sampled_from(_KINDS))
    def taken_up(self, server: int, kind: str) -> None:
        """An API server takes something up."""
        self.world.take_up(server, kind)

    @rule(number=replicas, keeps_files=st.booleans())
    def killed(self, number: int, *, keeps_files: bool) -> None:
        """A replica ends in the middle, and begins anew with the files that it had or with none."""
        replica = self.replicas[number]
        replica.start(replica.keeper.served if keeps_files else None)

    @rule(what=st.sampled_from(["authority", "certificate", "nonsense"]))
    def asked(self, what: str) -> None:
        """An operator asks for a renewal."""
        ask(self.world, what)

    @rule()
    def unregistered(self) -> None:
        """Nobody calls the gate any more."""
        self.world.unregister()

    @rule()
    def registered(self) -> None:
        """And again, trusting nobody yet."""
        self.world.is_registered = True

    @invariant()
    def everybody_is_trusted(self) -> None:
        """What all of it is about. Whose certificate has expired by neglect takes what there is."""
        assert all(each.is_trusted() or each.was_late for each in self.replicas)


class Losses(Order):
    """And where the Secret is deleted or damaged.

    Who has nothing to serve then, since it has just started, may have to serve what is published but not yet taken up.
    """

    @rule()
    def deleted(self) -> None:
        """The Secret goes."""
        self.world.overwrite(None)

    @rule(part=st.sampled_from(["leaf", "authority", "since"]))
    def damaged(self, part: str) -> None:
        """A part of it can no longer be used."""
        if self.world.secret:
            there = self.world.secret.state
            damages = {
                "leaf": replace(there, serving=None),
                "authority": replace(there, ca=None, previous_cas=there.ca_certificates),
                "since": replace(there, ca_since=None),
            }
            self.world.overwrite(damages[part])

    @rule()
    def unregistered(self) -> None:
        """Not beside losses: where nothing is published, nothing tells what others serve with."""

    @invariant()
    def everybody_is_trusted(self) -> None:
        """As above, but for those that have just started."""
        assert all(each.is_trusted() or each.was_late or each.is_new for each in self.replicas)


def _tried(machine: type[Order], how: settings = _SETTINGS) -> None:
    run_state_machine_as_test(machine, settings=how)


def test_whatever_happens_and_whoever_is_killed_no_api_server_meets_what_it_does_not_trust() -> None:
    _tried(Order)


def test_a_secret_that_is_deleted_or_damaged_harms_nobody_who_serves() -> None:
    _tried(Losses)


class _NeverWaits(CertificateReconciler):
    """Serves as soon as it has published."""

    def _is_propagated(self, _: x509.Certificate) -> bool:
        return True


def _forgets_at_once(since: datetime) -> datetime:
    return since


def _publishes_last(
    sight: ca_rotation.RotationInput, real: Callable[..., ca_rotation.RotationStep | None]
) -> ca_rotation.RotationStep | None:
    """Signs with the new authority first, and publishes then."""
    step = real(sight)
    if step and step.action is ca_rotation.RotationAction.PUBLISH:
        return real(replace(sight, is_published=True, is_propagated=lambda _: True)) or step
    return step


def _forgets_what_is_published(
    sight: ca_rotation.RotationInput, real: Callable[..., ca_rotation.RotationStep | None]
) -> object:
    return real(replace(sight, published_cas=(), served=None))


def _machine(base: type[Order], keeper: type[CertificateReconciler]) -> type[Order]:
    return type("Wrong", (base,), {"new": keeper})


def test_serving_before_api_servers_have_taken_up_what_was_published_is_found_out() -> None:
    with pytest.raises(AssertionError):
        _tried(_machine(Order, _NeverWaits), _HUNT)


class _LooksTheOtherWayRound(CertificateReconciler):
    """Sees the Secret first, then what is published."""

    def observe_configurations(self) -> None:
        """See the Secret."""
        super().observe_secret()

    def observe_secret(self) -> None:
        """See what is published."""
        super().observe_configurations()


def _overtaken(keeper: Callable[..., CertificateReconciler]) -> bool:
    """A replica is held up in the middle of a round while the other succeeds the authority; is the other trusted?"""
    world = World()
    slow, quick = (Replica(world, number, keeper) for number in range(2))
    for each in (slow, quick) * 4:
        each.round()
    world.pass_time(PROPAGATION_DELAY_SECONDS * 1.1)
    slow.step()
    ask(world, "authority")
    for _ in range(6):
        quick.round()
        world.pass_time(PROPAGATION_DELAY_SECONDS * 1.1)
    slow.step()
    slow.step()
    world.pass_time(PROPAGATION_DELAY_SECONDS)
    return quick.is_trusted()


def test_who_is_held_up_publishes_no_older_secret_over_a_newer_one() -> None:
    assert _overtaken(CertificateReconciler)


def test_looking_at_the_secret_before_what_is_published_is_found_out() -> None:
    assert not _overtaken(_LooksTheOtherWayRound)


def _left_behind() -> bool:
    """An authority is succeeded while one replica makes no rounds; is that one trusted all the while?"""
    world = World()
    quick, lagging = (Replica(world, number) for number in range(2))
    for each in (quick, lagging) * 4:
        each.round()
    ask(world, "authority")
    trusted = []
    for _ in range(8):
        world.pass_time(PROPAGATION_DELAY_SECONDS * 1.1)
        quick.round()
        trusted.append(lagging.is_trusted())
    assert quick.keeper.served != lagging.keeper.served
    return all(trusted)


def test_who_lags_behind_is_trusted_all_the_while() -> None:
    assert _left_behind()


def test_who_serves_with_what_a_restored_cluster_has_never_heard_of_goes_over_to_what_it_has_at_the_next_look() -> None:
    world = World()
    replica = Replica(world, 0)
    for _ in range(4):
        replica.round()
    assert world.secret
    secret, bundle = world.secret.state, world.configurations[_KINDS[0]].history[-1][1]
    ask(world, "authority")
    for _ in range(6):
        world.pass_time(PROPAGATION_DELAY_SECONDS * 1.1)
        replica.round()
    assert replica.keeper.served != secret.serving
    world.overwrite(secret)
    for each in world.configurations.values():
        each.history.append((world.seconds, bundle))
    world.pass_time(PROPAGATION_DELAY_SECONDS)
    assert not replica.is_trusted()
    replica.round()
    assert replica.keeper.served == secret.serving
    assert replica.is_trusted()


def test_forgetting_the_old_authority_at_once_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ca_rotation, "get_retirement_time", _forgets_at_once)
    assert not _left_behind()


def test_publishing_after_signing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "choose_step", partial(_publishes_last, real=ca_rotation.choose_step))
    with pytest.raises(AssertionError):
        _tried(_machine(Order, _NeverWaits), _HUNT)


def test_making_a_lost_secret_anew_without_what_is_published_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "choose_step", partial(_forgets_what_is_published, real=ca_rotation.choose_step))
    with pytest.raises(AssertionError):
        _tried(Losses, _HUNT)
