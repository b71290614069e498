"""What there is to know of certificates that a gate keeps in a Secret: what is kept, who trusts it, what comes next."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from certs.keeper import Registered
from certs.kept import Kept, authorities_in, fingerprint, pem
from certs.renewal import LEAF_MARGIN
from certs.show import Facts, facts_of
from certs.succession import complaint, forgotten_at

_LATE = LEAF_MARGIN - timedelta(days=2)  # a gate that runs has renewed long before so little is left


@dataclass(frozen=True, slots=True)
class Trust:
    """A webhook configuration, and whether its webhooks trust what is kept."""

    kind: str
    webhooks: int
    is_right: bool


@dataclass(frozen=True, slots=True)
class Status:
    """The authorities, the newest first, the serving certificate, what trusts them, what is going on, what is wrong."""

    authorities: tuple[Facts, ...]
    leaf: Facts | None
    trust: tuple[Trust, ...]
    going_on: tuple[str, ...]
    problems: tuple[str, ...]


def status_of(kept: Kept | None, registered: Sequence[Registered], now: datetime) -> Status:
    """What is to be said of what was found."""
    if kept is None:
        return Status((), None, _trust(Kept(), registered), (), ("there is no such Secret: no gate has made it",))
    return Status(
        tuple(facts_of(each, now) for each in kept.authorities),
        facts_of(kept.leaf.certificate, now) if kept.leaf else None,
        _trust(kept, registered),
        _going_on(kept),
        tuple(_problems(kept, registered, now)),
    )


def _trust(kept: Kept, registered: Sequence[Registered]) -> tuple[Trust, ...]:
    bundle = pem(kept.authorities)
    return tuple(
        Trust(each.kind, len(each.bundles), bool(bundle) and all(text == bundle for text in each.bundles))
        for each in registered
    )


def _going_on(kept: Kept) -> tuple[str, ...]:
    said = []
    if kept.authority and kept.leaf and not kept.leaf.is_signed_by(kept.authority.certificate):
        said.append("a new authority is published; it signs what is served when every API server has taken it up")
    if kept.since and kept.trusted:
        old = ", ".join(map(fingerprint, kept.trusted))
        said.append(
            f"{old}: trusted until {forgotten_at(kept.since):%Y-%m-%d}, when all that it has signed has expired"
        )
    if kept.asked:
        said.append(f"asked for: {kept.asked}")
    return tuple(said)


def _problems(kept: Kept, registered: Sequence[Registered], now: datetime) -> list[str]:
    said = []
    if kept.authority is None:
        said.append("ca.crt and ca.key hold no authority that can sign; a gate that runs makes a new one")
    if kept.leaf is None:
        said.append("tls.crt and tls.key hold no certificate with its key; a gate that runs makes a new one")
    elif not kept.leaf.is_good(kept.authorities, now):
        said.append("the serving certificate has expired, or nothing in ca.crt has signed it")
    elif kept.leaf.certificate.not_valid_after_utc - now < _LATE:
        said.append("the serving certificate should have been renewed: see the gate's log, certificates-not-kept")
    said += [why] if (why := complaint(kept)) else []
    return said + [text for each in registered if (text := _untrusting(kept, each, now))]


def _untrusting(kept: Kept, found: Registered, now: datetime) -> str:
    """Why the webhooks of a configuration do not trust what is kept; empty when they do."""
    untrusting = [
        text for text in found.bundles if kept.leaf is None or not kept.leaf.is_good(authorities_in(text), now)
    ]
    if untrusting:
        return f"{len(untrusting)} of {len(found.bundles)} webhooks of the {found.kind} do not trust the certificate"
    if any(text != pem(kept.authorities) for text in found.bundles):
        return f"the {found.kind} does not trust exactly what ca.crt says; a gate that runs mends it in seconds"
    return ""
