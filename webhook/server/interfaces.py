"""What the server asks of the parts it is built from.

What a gate is for the server, however it is put together.
"""

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
"""`Gate.admit`: the bytes of a review, the phase, and a deadline in monotonic seconds; raises as it says there."""


@dataclass(frozen=True, slots=True)
class ReadinessStatus:
    """One thing that must be so for the gate to be ready, with what there is to say about it."""

    name: str
    ready: bool
    detail: Mapping[str, Any] = field(default_factory=dict)


SERVING = "serving"
"""The check that fails once the server is told to end; it still answers then."""

ReadinessCheck = Callable[[], ReadinessStatus]
"""Asks for the state of one thing, now; quick, and never raises."""


@dataclass(frozen=True, slots=True)
class ServerSetup:
    """What whoever runs beside the server wants of it: these settings, and to be asked when ready is asked."""

    settings: Settings
    checks: Sequence[ReadinessCheck] = ()


@dataclass(frozen=True, slots=True)
class GateParts:
    """What decides, what more there is to ask when ready is asked, and what runs beside it."""

    admit: Admit
    checks: Sequence[ReadinessCheck] = ()
    run_workers: Callable[[], AbstractContextManager[object]] = nullcontext


def create_nonce_source() -> Callable[[], str]:
    """Texts that no other attempt of any process has: random for this process, then counted."""
    prefix, counter = secrets.token_hex(8), itertools.count()
    return lambda: f"{prefix}-{next(counter):x}"
