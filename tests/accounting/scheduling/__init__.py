"""Where a pod goes: the scheduler's rules, and what is told of them."""
