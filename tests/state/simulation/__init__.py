"""A seeded, deterministic simulation of replicas that share ledgers, over the product's own transitions.

The rule of this room: nothing here decides what a ledger says; that is `webhook.state.ledger`, called through `rules`,
so that a wrong variant can stand in its place. A schedule is a list of numbers drawn from a seed; what they do is
decided by the state of the world alone, so that any part of a schedule is a schedule: that is what shrinking needs.

`cluster` is the truth (API server and etcd), `handling` one admission attempt, `observing` what a replica knows and
`upkeep` what it does of its own, `world` all steps, `invariants` what must hold after each, `quiet` what must hold in
the end. `python -m tests.state.simulation --help` runs more of it than the suite does.
"""
