"""Publishing: the authorities of a folder, written into the webhook configurations by which an API server trusts us."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from certs.api import Api, ApiError
from certs.configurations import KINDS, read, write_trust
from certs.errors import CertsError
from certs.files import AUTHORITIES, CHAIN, read_authorities, read_chain
from certs.show import chain_problem

_LARGEST_BUNDLE = 1 << 16  # bytes; an authority takes less than one thousand, and each entry gets a copy
_TRIES = 5
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")  # a DNS subdomain, so far that it is one step of a path


class Outcome(StrEnum):
    """What became of one configuration."""

    UPDATED = "updated"
    UNCHANGED = "unchanged"
    MISSING = "not there"


@dataclass(frozen=True, slots=True)
class Published:
    """One configuration, and what became of it."""

    kind: str
    name: str
    outcome: Outcome


def bundle(folder: Path, now: datetime) -> bytes:
    """What is to be trusted: the certificates of `ca.crt` as PEM, and nothing else that may stand in it.

    Raises:
        CertsError: there are none, they are too many to publish, or a serving certificate beside them is not valid by
            them: then nobody could call the gate any more.
    """
    authorities, chain = read_authorities(folder), read_chain(folder)
    if not authorities:
        raise CertsError(f"{folder / AUTHORITIES}: no certificate in it; `tallygate certs issue` makes one")
    if chain and (problem := chain_problem(chain[0], authorities, now)):
        raise CertsError(
            f"{folder / CHAIN}: {problem}; who trusts only {folder / AUTHORITIES} would not call the gate: "
            "`tallygate certs renew` or `tallygate certs issue` makes it anew"
        )
    pem = b"".join(each.public_bytes(serialization.Encoding.PEM) for each in authorities)
    if len(pem) > _LARGEST_BUNDLE:
        raise CertsError(
            f"{folder / AUTHORITIES}: {len(authorities)} certificates, {len(pem)} bytes; the most that is published is "
            f"{_LARGEST_BUNDLE}: keep those that sign for the gate"
        )
    return pem


def publish(api: Api, name: str, trusted: bytes) -> Iterator[Published]:
    """Write `trusted` into every webhook of both configurations of this name, and say of each what was done.

    What is so already is not written; nothing but `caBundle` is touched. One of the two may be missing.

    Raises:
        CertsError: nothing can be called so, neither is there, the API server cannot be reached or refuses, or others
            keep changing one.
    """
    if not _NAME.fullmatch(name):
        raise CertsError(
            f"{name!r} names no webhook configuration: lower-case letters and digits, with - and . between"
        )
    done = []
    for kind in KINDS:
        try:
            outcome = _publish(api, kind, name, base64.b64encode(trusted).decode("ascii"))
        except ApiError as error:
            raise error.explained(f"read and patch the {kind} {name}") from None
        done.append(outcome)
        yield Published(kind, name, outcome)
    if set(done) == {Outcome.MISSING}:
        raise CertsError(
            f"no webhook configuration is called {name}: register the gate first (kubectl apply -k "
            "deploy/kustomize/base), or name it by --name"
        )


def _publish(api: Api, kind: str, name: str, trusted: str) -> Outcome:
    for _ in range(_TRIES):
        try:
            if not write_trust(api, name, read(api, kind, name), trusted):
                return Outcome.UNCHANGED
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return Outcome.MISSING
            if error.status != HTTPStatus.CONFLICT:
                raise
        else:
            return Outcome.UPDATED
    raise CertsError(
        f"the {kind} {name} was changed by somebody else each of the {_TRIES} times that we read it: "
        "try again, and look who writes it (kubectl get --show-managed-fields)"
    )
