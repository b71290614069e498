"""Names of CapLedger objects: the group, the kind, and a unique object name for each ledger."""

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

_MAX_PART_LENGTH = 80  # characters; a cap's key has 74 at most, a namespace 63
_HASH_DIGITS = 20


@lru_cache(maxsize=10_000)
def get_object_name(key: LedgerKey) -> str:
    """Return a DNS subdomain (RFC 1123, at most 253 characters): readable names, and 80 bits of a hash of the key.

    The object itself contains the key of its ledger; readers compare it.
    """
    whole = json.dumps([key.cap, key.namespace]).encode()
    digest = hashlib.sha256(whole).hexdigest()[:_HASH_DIGITS]
    return ".".join(part for part in (_sanitize(key.cap), _sanitize(key.namespace), digest) if part)


def _sanitize(text: str) -> str:
    """Return the text with only the characters that a label may contain."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_MAX_PART_LENGTH].strip("-")
