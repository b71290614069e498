"""A seeded simulation of replicas that are put together from the product's own parts.

This package reserves, counts and batches nothing itself: `webhook.gate` and `webhook.state` do. Their environment is
simulated: threads of which one runs at a time (`tasks`), a ledger store with unknown outcomes over an etcd that stalls
(`store`), watches that lag and clocks that differ (`replica`). `environment` has the shared objects, `ground_truth`
the stored pods, namespaces and ledgers, `actors` the steps of users, API server, etcd and replicas. `invariants` are
checked after every write, `convergence` at the end. `mutants` replace parts of the product by wrong ones.

`tests.state.simulation` plays far more schedules over the pure transitions; this package plays their callers.
"""
