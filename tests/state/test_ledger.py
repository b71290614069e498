"""The ledger's transitions, against the rules they are numbered by, and as a machine of many attempts."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from webhook.accounting.amounts import Amounts
from webhook.state.ledger import Granted, Kind, Ledger, Refused, Reservation, reserve, withdraw

GPU = "nvidia.com/gpu"
IPS = "example.com/ip"


def wants(uid: str = "u1", new: int = 1, old: int = 0, by: str = "n1", hard: int = 4, **more: bool) -> Reservation:
    """A pod that asks for GPUs."""
    kind = Kind.CREATE if old == 0 else Kind.CHANGE
    asked, before = Amounts({GPU: new}), Amounts({GPU: old})
    return Reservation(uid, "team-a", uid, before, asked, by, kind, Amounts({GPU: hard}), **more)


def empty(hard: int = 4) -> Ledger:
    """Nothing held, nothing promised."""
    return Ledger(Amounts({GPU: hard}))


def granted(ledger: Ledger, wanted: Reservation) -> Ledger:
    """The ledger after a grant that must be given."""
    answer = reserve(ledger, wanted)
    assert isinstance(answer, Granted)
    return answer.ledger


def refused(ledger: Ledger, wanted: Reservation) -> Amounts:
    """The excess of a refusal that must be given."""
    answer = reserve(ledger, wanted)
    assert isinstance(answer, Refused)
    assert answer.ledger is ledger
    return answer.excess


def test_a_promise_is_charged_at_once() -> None:
    assert granted(empty(), wants(new=3)).charged() == Amounts({GPU: 3})


def test_the_last_unit_can_be_promised_and_not_one_more() -> None:
    ledger = granted(empty(), wants(new=4))
    assert refused(ledger, wants("u2", new=1)) == Amounts({GPU: 1})


def test_asking_for_no_more_than_before_is_free() -> None:
    answer = reserve(empty(), wants(new=2, old=2))
    assert isinstance(answer, Granted)
    assert answer.free
    assert not answer.ledger.rows


def test_only_the_growth_of_a_change_is_charged() -> None:
    ledger = Ledger(Amounts({GPU: 4}), tally=Amounts({GPU: 3}))
    assert granted(ledger, wants(new=4, old=3)).charged() == Amounts({GPU: 4})
    assert refused(ledger, wants(new=5, old=3)) == Amounts({GPU: 1})


def test_the_same_pod_again_is_charged_once_for_the_larger_promise() -> None:
    ledger = granted(empty(), wants(new=3))
    ledger = granted(ledger, wants(new=2, by="n2"))
    row = ledger.rows["u1"]
    assert ledger.charged() == Amounts({GPU: 3})
    assert (row.by, row.sole, row.kind) == ("n2", False, Kind.CREATE)


def test_a_promise_that_was_a_creation_and_a_change_is_a_change() -> None:
    ledger = granted(granted(empty(), wants(new=1)), wants(new=3, old=1, by="n2"))
    row = ledger.rows["u1"]
    assert (row.base, row.to, row.kind) == (Amounts({GPU: 0}), Amounts({GPU: 3}), Kind.CHANGE)


def test_a_promise_that_was_a_change_stays_one() -> None:
    ledger = granted(granted(empty(), wants(new=2, old=1)), wants(new=3, by="n2"))
    assert ledger.rows["u1"].kind is Kind.CHANGE


def test_even_a_free_ask_is_written_when_its_row_is_there() -> None:
    answer = reserve(granted(empty(), wants(new=1)), wants(new=1, old=1, by="n2"))
    assert isinstance(answer, Granted)
    assert not answer.free


def test_the_smaller_of_both_bounds_counts() -> None:
    assert refused(empty(hard=8), wants(new=5, hard=4)) == Amounts({GPU: 1})
    assert refused(empty(hard=4), wants(new=6, hard=8)) == Amounts({GPU: 2})


def test_a_pod_that_asks_nothing_of_an_overfull_name_passes() -> None:
    ledger = Ledger(Amounts({GPU: 4, IPS: 9}), tally=Amounts({GPU: 9}))
    wanted = Reservation("u1", "team-a", "p", Amounts(), Amounts({IPS: 1}), "n", Kind.CREATE, ledger.hard)
    assert granted(ledger, wanted).charged() == Amounts({GPU: 9, IPS: 1})


def test_who_may_break_the_glass_goes_over_and_is_charged() -> None:
    assert granted(empty(), wants(new=9, exceeds=True)).charged() == Amounts({GPU: 9})


def test_what_has_no_bound_is_never_refused() -> None:
    wanted = Reservation("u1", "team-a", "p", Amounts(), Amounts({IPS: 10**30}), "n", Kind.CREATE, Amounts())
    assert granted(Ledger(Amounts()), wanted).charged() == Amounts({IPS: 10**30})


def test_an_attempt_takes_back_its_own_promise() -> None:
    ledger = granted(empty(), wants())
    assert not withdraw(ledger, "u1", "n1").charged().short_of({})
    assert not withdraw(ledger, "u1", "n1").rows


@pytest.mark.parametrize(("uid", "by"), [("u1", "n0"), ("u0", "n1")], ids=["another attempt's", "another pod's"])
def test_an_attempt_takes_back_nothing_that_is(uid: str, by: str) -> None:
    ledger = granted(empty(), wants())
    assert withdraw(ledger, uid, by) is ledger


def test_a_promise_that_two_attempts_share_is_taken_back_by_neither() -> None:
    ledger = granted(granted(empty(), wants()), wants(by="n2"))
    assert withdraw(ledger, "u1", "n1") is ledger
    assert withdraw(ledger, "u1", "n2") is ledger


class Attempts(RuleBasedStateMachine):
    """Many attempts of few pods: what is promised never goes over, per pod and in all."""

    HARD = 5

    def __init__(self) -> None:
        super().__init__()
        self.ledger = empty(self.HARD)
        self.most: dict[str, int] = {}
        self.nonce = 0
        self.sole: dict[str, str] = {}

    @rule(uid=st.sampled_from("abcd"), new=st.integers(0, 4))
    def create(self, uid: str, new: int) -> None:
        """A creation, or its retry."""
        self.nonce += 1
        answer = reserve(self.ledger, wants(uid, new=new, by=str(self.nonce), hard=self.HARD))
        room = self.HARD - sum(most for other, most in self.most.items() if other != uid)
        if isinstance(answer, Refused):
            assert new > room
            return
        assert answer.free or new <= room or new <= self.most[uid]
        self.ledger = answer.ledger
        if not answer.free:
            if uid in self.most:
                self.sole.pop(uid, None)
            else:
                self.sole[uid] = str(self.nonce)
            self.most[uid] = max(new, self.most.get(uid, 0))

    @rule(uid=st.sampled_from("abcd"), by=st.integers(0, 60))
    def give_back(self, uid: str, by: int) -> None:
        """An attempt that gave up."""
        self.ledger = withdraw(self.ledger, uid, str(by))
        if self.sole.get(uid) == str(by):
            del self.sole[uid], self.most[uid]

    @invariant()
    def every_pod_is_promised_what_it_was_granted(self) -> None:
        """Per pod, since totals alone would let two mistakes cancel out."""
        assert {uid: row.to.get(GPU, 0) for uid, row in self.ledger.rows.items()} == self.most

    @invariant()
    def the_sum_goes_along_with_the_rows(self) -> None:
        """What is kept by difference is what adding up would give."""
        assert self.ledger.promised.get(GPU, 0) == sum(row.promised().get(GPU, 0) for row in self.ledger.rows.values())

    @invariant()
    def the_cap_holds(self) -> None:
        """Never more than there may be."""
        assert self.ledger.charged().get(GPU, 0) <= self.HARD


Attempts.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestAttempts = Attempts.TestCase
