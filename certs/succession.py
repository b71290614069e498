"""What is to be done next about the certificates in the Secret, by whoever looks, and in which order.

Nothing here calls anybody. Every step is one write, made only if nothing was changed since it was looked at, and each
leaves everything such that whoever comes next can go on, and that what is served is trusted all the while:

    successor   a new authority comes first in `ca.crt`; the old one stays trusted, and signs no more from now on
    publish     `caBundle` of all webhooks is what `ca.crt` says
    (settling)  every API server takes up what was published
    certificate the new authority signs what is served
    (90 days)   whatever the old one has signed expires, whoever still serves with it
    forget      the old one goes from `ca.crt`, and with the next `publish` from `caBundle`

An authority that is not known to have come in this way (the Secret was deleted, replaced or never there) is treated as
a successor that came in just now, of all that is published and of what this replica serves with.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from cryptography import x509

from certs.authority import LEAF_LIFETIME, Pair, new_authority, new_leaf
from certs.kept import ASKED, MOST_AUTHORITIES, Kept, Leaf, leaf_of
from certs.names import Names
from certs.renewal import LEAF_MARGIN, authority_due

_SKEW = timedelta(days=1)  # by which the clocks of replicas may differ before an authority is forgotten too early
_CERTIFICATE, _AUTHORITY = "certificate", "authority"
_ASKABLE = frozenset({"", _CERTIFICATE, _AUTHORITY})


class What(StrEnum):
    """The kinds of step."""

    REBUILD = "rebuild"
    TAKE_OVER = "take-over"
    PUBLISH = "publish"
    CERTIFICATE = "certificate"
    SUCCESSOR = "authority"
    FORGET = "forget"


@dataclass(frozen=True, slots=True)
class Sight:
    """What one replica sees.

    `kept` is None when there is no Secret; `published` are the authorities that any webhook trusts now, `is_published`
    whether all of them trust exactly what `kept` says; `settled` tells whether every API server is sure to trust an
    authority, which none is while nothing can be published; `served` is what this replica serves with; `names` are
    those by which the gate is called.
    """

    kept: Kept | None
    published: tuple[x509.Certificate, ...]
    is_published: bool
    settled: Callable[[x509.Certificate], bool]
    served: Leaf | None
    names: Names
    now: datetime


@dataclass(frozen=True, slots=True)
class Step:
    """A step, the reason for it as a sentence, and what is then to be kept; None: nothing of the Secret changes."""

    what: What
    why: str
    kept: Kept | None = None


def next_step(sight: Sight) -> Step | None:
    """What this replica should do now; None: nothing, or nothing yet."""
    kept, authority = sight.kept, sight.kept.authority if sight.kept else None
    if kept is None or authority is None or authority.certificate.not_valid_after_utc <= sight.now:
        return _rebuilt(kept or Kept(), sight, "there is no Secret" if kept is None else "no authority in it signs")
    if kept.since is None:
        trusted = _bounded(kept.trusted, sight.published, without=authority.certificate)
        return Step(What.TAKE_OVER, "its authority is new here", replace(kept, trusted=trusted, since=sight.now))
    if not sight.is_published:
        return Step(What.PUBLISH, "API servers are to trust what ca.crt says")
    return _certificate(kept, authority, sight) or _authorities(kept, authority, sight)


def forgotten_at(since: datetime) -> datetime:
    """When those are forgotten whose successor came in at `since`: what they signed has expired by then."""
    return since + LEAF_LIFETIME + _SKEW


def complaint(kept: Kept) -> str:
    """What whoever has asked for something should know; empty when it is or will be done."""
    if kept.asked not in _ASKABLE:
        return f"the annotation {ASKED} is {kept.asked[:40]!r}; write {_CERTIFICATE} or {_AUTHORITY}"
    if kept.asked == _AUTHORITY and kept.since and len(kept.authorities) >= MOST_AUTHORITIES:
        return (
            f"{len(kept.authorities)} authorities are trusted, and no more can be: a new one is made after "
            f"{forgotten_at(kept.since):%Y-%m-%d}, when the old ones are forgotten"
        )
    return ""


def _rebuilt(kept: Kept, sight: Sight, why: str) -> Step:
    """A new authority beside all that may be trusted now, and a leaf that is trusted already, if there is one."""
    authority = new_authority(sight.now)
    trusted = _bounded(sight.published, kept.trusted, without=authority.certificate)
    leaf = next((each for each in (kept.leaf, sight.served) if each and each.is_good(trusted, sight.now)), None)
    new = Kept(authority, trusted, leaf or _signed(authority, sight), sight.now)
    return Step(What.REBUILD, why, new)


def _certificate(kept: Kept, authority: Pair, sight: Sight) -> Step | None:
    leaf, now = kept.leaf, sight.now
    if leaf is None or not leaf.is_good(kept.authorities, now):
        served = sight.served
        if served and served != leaf and served.is_good(kept.authorities, now):
            return Step(What.CERTIFICATE, "the one in it cannot be used; it is served on", replace(kept, leaf=served))
        return _new_certificate(kept, authority, sight, "the one in it cannot be used or has expired")
    if not leaf.is_signed_by(authority.certificate):
        if not sight.settled(authority.certificate):
            return None
        return _new_certificate(kept, authority, sight, "the new authority is trusted everywhere")
    if why := _leaf_due(leaf, kept.asked, sight):
        return _new_certificate(kept, authority, sight, why)
    return None


def _authorities(kept: Kept, authority: Pair, sight: Sight) -> Step | None:
    """What is due of them, once the newest has signed what is served."""
    if kept.leaf is None or not kept.leaf.is_signed_by(authority.certificate):
        return None
    due = authority_due(authority.certificate, sight.now)
    if (due or kept.asked == _AUTHORITY) and len(kept.authorities) < MOST_AUTHORITIES:
        why = "the old one has less than a year left" if due else "it was asked for"
        new = Kept(new_authority(sight.now), kept.authorities, kept.leaf, sight.now)
        return Step(What.SUCCESSOR, why, new)
    if kept.trusted and kept.since and sight.now >= forgotten_at(kept.since):
        return Step(What.FORGET, "all that the old ones have signed has expired", replace(kept, trusted=()))
    return None


def _leaf_due(leaf: Leaf, asked: str, sight: Sight) -> str:
    """Why a leaf of the newest authority must be made anew; empty when it need not be."""
    left = leaf.certificate.not_valid_after_utc - sight.now
    if asked == _CERTIFICATE:
        return "it was asked for"
    if left < LEAF_MARGIN:
        return f"the old one has {left.days} days left"
    own = leaf.names()
    missing = set(sight.names.texts()) - set(own.texts() if own else ())
    return f"the old one is not good for {', '.join(sorted(missing))}" if missing else ""


def _new_certificate(kept: Kept, authority: Pair, sight: Sight, why: str) -> Step:
    asked = "" if kept.asked == _CERTIFICATE else kept.asked
    return Step(What.CERTIFICATE, why, replace(kept, leaf=_signed(authority, sight, kept.leaf), asked=asked))


def _signed(authority: Pair, sight: Sight, old: Leaf | None = None) -> Leaf:
    """Good for all names by which the gate is called, and for those of the old one, which may be called so again."""
    own = old.names() if old else None
    return leaf_of(new_leaf(authority, sight.names + own if own else sight.names, sight.now))


def _bounded(*several: Iterable[x509.Certificate], without: x509.Certificate) -> tuple[x509.Certificate, ...]:
    """All of these, each once, as many as may stand beside one more."""
    every = dict.fromkeys(each for some in several for each in some if each != without)
    return tuple(every)[: MOST_AUTHORITIES - 1]
