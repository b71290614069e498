"""What a gate is for the server, however it is put together."""

import itertools
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from webhook.server.ports import Admit, ReadinessCheck


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
