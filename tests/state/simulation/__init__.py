"""A seeded, deterministic simulation of replicas that share ledgers, over the product's own transitions.

This package computes no ledger itself: it calls the transitions of `tallygate.state.ledger` through `rules`, so that a
mutant can replace one of them. `tests.schedules` draws the schedules and cuts down those that fail.

`ground_truth` is the storage of the API server, `replica` the watches and memory of a replica, `handlers` one admission
request in it, `replica_steps` its background work, `claim_steps` the life of claims for devices, `surge_steps` the
controllers that roll, `ledger_writes` etcd, `world` every other step, `invariants` the checks after each step,
`convergence` the checks at the end, `rollout_ends` those of rollouts.
`python -m tests.state.simulation --help` plays more schedules than the tests do.
"""
