"""Where a ledger lies: group, kind, and a name for the object that no other ledger has."""

import hashlib
import json
import re
from functools import lru_cache

from webhook.state.ports import LedgerKey

GROUP = "tallygate.dev"
VERSION = "v1alpha1"
KIND = "CapLedger"
PLURAL = "capledgers"
FINALIZER = "tallygate.dev/ledger"

_LONGEST_PART = 80  # characters; a cap's key has 74 at most, a namespace 63
_DIGITS = 20


@lru_cache(maxsize=10_000)
def object_name(key: LedgerKey) -> str:
    """A DNS subdomain (RFC 1123, at most 253 characters): what people look for, and 80 bits of what it stands for.

    The object itself says which ledger it is; who reads it compares.
    """
    whole = json.dumps([key.cap, key.namespace]).encode()
    digest = hashlib.sha256(whole).hexdigest()[:_DIGITS]
    return ".".join(part for part in (_readable(key.cap), _readable(key.namespace), digest) if part)


def _readable(text: str) -> str:
    """What of it a label may hold."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_LONGEST_PART].strip("-")
