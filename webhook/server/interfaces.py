"""The interfaces between the server and the parts that it is built from."""

import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from webhook.admission.request import Phase
from webhook.gate.decisions import Decision
from webhook.server.settings.table import Settings

Admit = Callable[[bytes, Phase, float], Decision]
"""`Gate.admit`: the bytes of a review, the phase, and a deadline in monotonic seconds; it raises the same errors."""


@dataclass(frozen=True, slots=True)
class ReadinessStatus:
    """The status of one readiness check, with details for the user."""

    name: str
    ready: bool
    detail: Mapping[str, Any] = field(default_factory=dict)


SERVING = "serving"
"""The name of the check that fails once the server drains; it still answers reviews then."""

ReadinessCheck = Callable[[], ReadinessStatus]
"""A function that returns the current status of one part; it is fast and never raises."""


@dataclass(frozen=True, slots=True)
class ServerSetup:
    """The settings and additional readiness checks of a server, from the code that runs beside it."""

    settings: Settings
    checks: Sequence[ReadinessCheck] = ()


@dataclass(frozen=True, slots=True)
class GateParts:
    """The `admit` of a gate, its readiness checks, and the context in which its workers run."""

    admit: Admit
    checks: Sequence[ReadinessCheck] = ()
    run_workers: Callable[[], AbstractContextManager[object]] = nullcontext


def create_nonce_source() -> Callable[[], str]:
    """Return a source of texts that no other attempt of any process has: a random prefix per process, and a counter."""
    prefix, counter = secrets.token_hex(8), itertools.count()
    return lambda: f"{prefix}-{next(counter):x}"
