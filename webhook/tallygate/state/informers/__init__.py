"""The stores that informers keep current, for any thread. They import no ledger and no other adapter."""
