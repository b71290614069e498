"""When certificates are made anew, and in which order, so that nobody ever meets one that they do not trust yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509

from certs.authority import LEAF_LIFETIME, new_authority, new_leaf
from certs.errors import CertsError
from certs.files import read_authorities, read_authority, read_leaf, write_authorities, write_authority, write_leaf
from certs.names import Names, names_of

LEAF_MARGIN = LEAF_LIFETIME / 3
"""A leaf is renewed when it has less than this left."""

AUTHORITY_MARGIN = timedelta(days=365)
"""An authority is succeeded when it has less than this left."""

SETTLING = timedelta(days=1)
"""How long a new authority is trusted before it signs what is served: time to publish it everywhere."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What was done, and why, as a sentence for each; nothing when nothing was due."""

    done: tuple[str, ...]


def issue(folder: Path, names: Names, now: datetime) -> None:
    """Make a serving certificate for these names, in place of one that is there; and an authority, if there is none.

    Raises:
        CertsError: an authority is there but cannot be used, or the folder cannot be written.
    """
    if not read_authorities(folder):
        write_authority(folder, new_authority(now))
    authority = read_authority(folder)
    if authority.certificate.not_valid_after_utc <= now:
        raise CertsError(f"the authority in {folder} has expired; `tallygate certs renew` makes its successor")
    write_leaf(folder, new_leaf(authority, names, now))


def renew(folder: Path, now: datetime, *, force: bool = False) -> Renewal:
    """Make anew what is due: first a successor of the authority, trusted beside it; a day later a leaf signed by it.

    An authority that was succeeded stays trusted as long as a leaf that it signed may live. `force` makes a new leaf
    even though none is due.

    Raises:
        CertsError: there is nothing to renew, or the folder cannot be read or written.
    """
    authority, leaf = read_authority(folder), read_leaf(folder)
    signer, trusted = authority, read_authorities(folder)[1:]
    done = []
    if authority_due(authority.certificate, now):
        trusted = still_trusted((authority.certificate, *trusted), now, now)
        authority = new_authority(now)
        write_authority(folder, authority, trusted)
        done.append("made a new authority; publish ca.crt, which trusts it and the old one")
    elif (kept := still_trusted(trusted, authority.certificate.not_valid_before_utc, now)) != tuple(trusted):
        write_authorities(folder, (authority.certificate, *kept))
        done.append("ceased to trust an authority that nothing is signed by any more; publish ca.crt")
    if why := leaf_due(leaf.certificate, authority.certificate, now, force=force):
        # Nobody trusts an authority that was made just now, so its predecessor signs once more, if it lasts as long.
        if signer.certificate.not_valid_after_utc < now + LEAF_LIFETIME:
            signer = authority
        write_leaf(folder, new_leaf(signer, names_of(leaf.certificate), now))
        done.append(f"made a new serving certificate: {why}")
    return Renewal(tuple(done))


def authority_due(authority: x509.Certificate, now: datetime) -> bool:
    """Whether an authority needs a successor."""
    return authority.not_valid_after_utc - now < AUTHORITY_MARGIN


def leaf_due(leaf: x509.Certificate, authority: x509.Certificate, now: datetime, *, force: bool = False) -> str:
    """Why a leaf must be made anew; empty when it need not be."""
    left = leaf.not_valid_after_utc - now
    settled = authority.not_valid_before_utc + SETTLING <= now
    if force:
        return "it was asked for"
    if left <= timedelta(0):
        return "the old one has expired"
    if leaf.issuer != authority.subject and (settled or left <= SETTLING):
        return "the old one is signed by the authority's predecessor"
    if left < LEAF_MARGIN and leaf.issuer == authority.subject:
        return f"the old one has {left.days} days left"
    return ""


def still_trusted(
    succeeded: Sequence[x509.Certificate], since: datetime, now: datetime
) -> tuple[x509.Certificate, ...]:
    """Of authorities that were succeeded at the time `since`, those that a living leaf may be signed by."""
    return tuple(each for each in succeeded if now < min(each.not_valid_after_utc, since + LEAF_LIFETIME))
