"""Admission decisions and ledger reconciliation, without web, terminal, cluster client, clock or randomness."""
