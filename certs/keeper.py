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

from certs.kept import Kept, Leaf, authorities_in, fingerprint, pem
from certs.names import Names
from certs.succession import Sight, Step, What, complaint, next_step

SETTLING = 3600.0
"""Seconds from when a new authority is seen published until it signs what is served. API servers take up a changed
configuration within a second; one that is cut off from its store for longer cannot create anything either."""

_STALE = 60.0  # seconds; what was looked at longer ago is looked at again before anything is done about it


class ChangedError(Exception):
    """Somebody else has changed it since it was looked at; nothing was written."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A webhook configuration: what each of its webhooks trusts, and the names that they are called by."""

    kind: str
    version: str
    bundles: tuple[bytes, ...]
    names: Names | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """The Secret as it was found: what of it can be used, and by what a change of it is seen."""

    version: str
    kept: Kept


class Cluster(Protocol):
    """Where the Secret and the webhook configurations are."""

    def registered(self) -> tuple[Registered, ...]:
        """Those configurations that there are. Raises CertsError when that cannot be told."""
        ...

    def stored(self) -> Stored | None:
        """The Secret, if there is one. Raises CertsError when that cannot be told."""
        ...

    def store(self, kept: Kept, before: Stored | None) -> None:
        """Write the Secret in the place of what was found. Raises ChangedError, CertsError."""
        ...

    def publish(self, found: Registered, bundle: bytes) -> None:
        """Let all webhooks of a configuration trust this. Raises ChangedError, CertsError."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """The time for certificates, the seconds to count by, and how many of them settling takes."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    settling: float = SETTLING


class Keeper:
    """One replica's. To be used by one thread.

    `names` are those by which the gate is called where no registration says so, `take` puts a leaf in force here,
    and `served` is the one that is in force already.
    """

    def __init__(
        self,
        cluster: Cluster,
        names: Names,
        take: Callable[[Leaf], None],
        timing: Timing,
        served: Leaf | None = None,
    ) -> None:
        self._cluster = cluster
        self._names = names
        self._take = take
        self._timing = timing
        self._trusted_since: dict[x509.Certificate, float] = {}
        self._registered: tuple[Registered, ...] = ()
        self._stored: Stored | None = None
        self._looked = timing.monotonic()
        self.served = served
        self.complaint = ""

    @property
    def is_pending(self) -> bool:
        """Whether something is under way that wants to be looked at soon."""
        kept = self._stored.kept if self._stored else None
        if kept is None or kept.authority is None or kept.leaf is None or kept.leaf != self.served:
            return True
        return not kept.leaf.is_signed_by(kept.authority.certificate)

    def round(self) -> Step | None:
        """Look, serve what may be served, and take the step that is due; the step, if one was taken.

        Raises:
            ChangedError: somebody else was quicker; look again.
            CertsError: something cannot be read or written.
        """
        self.look_at_registration()
        self.look_at_secret()
        return self.act()

    def look_at_registration(self) -> None:
        """See what API servers are told to trust."""
        self._see_registration()

    def _see_registration(self) -> None:
        self._looked = self._timing.monotonic()
        self._registered = self._cluster.registered()
        everywhere = self._trusted_by_all()
        seen = self._timing.monotonic()
        self._trusted_since = {each: self._trusted_since.get(each, seen) for each in everywhere}

    def look_at_secret(self) -> None:
        """See what is kept, and serve what of it may be served."""
        self._stored = self._cluster.stored()
        if not self._is_in_order():
            self._see_registration()  # what was published until just now is all that tells by whom others are signed
        leaf = self._stored.kept.leaf if self._stored else None
        if leaf and leaf != self.served and self._may_serve(leaf):
            self._take(leaf)
            self.served = leaf

    def act(self) -> Step | None:
        """Take the step that is due."""
        kept = self._stored.kept if self._stored else None
        self.complaint = complaint(kept) if kept else ""
        if self._timing.monotonic() - self._looked > _STALE:
            return None
        step = next_step(self._sight(kept))
        if step and step.what is What.PUBLISH and kept:
            bundle = pem(kept.authorities)
            for each in self._registered:
                if any(trusted != bundle for trusted in each.bundles):
                    self._cluster.publish(each, bundle)
        elif step and step.kept:
            self._cluster.store(step.kept, self._stored)
        return step

    def _sight(self, kept: Kept | None) -> Sight:
        bundle = pem(kept.authorities) if kept else b""
        bundles = [each for found in self._registered for each in found.bundles]
        return Sight(
            kept=kept,
            published=tuple(dict.fromkeys(each for text in bundles for each in authorities_in(text))),
            is_published=all(text == bundle for text in bundles),
            settled=self._is_settled,
            served=self.served,
            names=self._all_names(),
            now=self._timing.now(),
        )

    def _all_names(self) -> Names:
        names = self._names
        for found in self._registered:
            names = names + found.names if found.names else names
        return names

    def _is_in_order(self) -> bool:
        kept = self._stored.kept if self._stored else None
        return kept is not None and kept.authority is not None and kept.since is not None

    def _may_serve(self, leaf: Leaf) -> bool:
        """Whether all who call take it: now, when there is nothing better to serve with, else for sure."""
        now, served = self._timing.now(), self.served
        if not self._registered:
            trusting: Iterable[x509.Certificate] = self._stored.kept.authorities if self._stored else ()
        else:
            trusting = self._trusted_since
        signers = [each for each in trusting if leaf.is_good([each], now)]
        if served is None or not served.is_good(trusting, now):
            return bool(signers)
        return any(self._is_settled(each) or served.is_signed_by(each) for each in signers)

    def _is_settled(self, authority: x509.Certificate) -> bool:
        since = self._trusted_since.get(authority)
        return since is not None and self._timing.monotonic() >= since + self._timing.settling

    def _trusted_by_all(self) -> list[x509.Certificate]:
        bundles = [authorities_in(text) for found in self._registered for text in found.bundles]
        return [each for each in dict.fromkeys(bundles[0]) if all(each in some for some in bundles)] if bundles else []


def told(kept: Kept) -> dict[str, object]:
    """What a log line says of what is kept: nothing of a key."""
    said: dict[str, object] = {"authorities": [fingerprint(each) for each in kept.authorities]}
    if kept.leaf:
        said |= {
            "certificate": fingerprint(kept.leaf.certificate),
            "not_after": kept.leaf.certificate.not_valid_after_utc.isoformat(),
        }
    return said
