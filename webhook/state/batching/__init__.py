"""One write for many: who waits for the same ledger in this process shares it.

The rule of this room: `line` says whose turn it is, `desk` what is known of one ledger, `ledgers` carries the attempts
out over any `ports.LedgerStore`. Nobody here knows where the ledgers are kept; time is handed in.
"""

from webhook.state.batching.ledgers import BatchedLedgers

__all__ = ["BatchedLedgers"]
