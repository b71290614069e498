"""Pure transitions of a ledger, by the rules of docs/caps.md: a ledger in, a ledger or a reason out."""
