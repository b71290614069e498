"""Pure transitions of a ledger, by the rules of docs/design/caps.md: from a ledger to a ledger or a reason."""
