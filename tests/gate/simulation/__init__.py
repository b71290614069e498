"""A seeded simulation of replicas that are put together from the product's own parts.

This package reserves, counts and batches nothing itself: `gate` and `state` of `tallygate` do. Their environment is
simulated: threads of which one runs at a time (`tasks`), a ledger store with unknown outcomes over an etcd that stalls
(`store`), watches that lag (`histories`) and clocks that differ (`replica`). `environment` has the shared objects,
`ground_truth` the stored objects and ledgers, `device_policies` and `surge_policies` the caps, `actors` the steps of
users, API server and etcd, `claim_actors` those of tenants, scheduler, controllers and drivers, `gang_actors` those of
workloads as wholes and their controllers, `rollout_actors` those of controllers that roll, `replica_actors` those of
replicas. In the worlds of `surge_policies` the product's gate decides whole reviews (`gate_replica`).
`invariants` are checked after every write by the plain arithmetic of `entitlements`, with what `counts` has recorded of
each count, and those of `gang_rooms` and, by `attempts`, of `surge_bounds`; `convergence` at the end, and
`rollout_convergence` of what rolls. `mutants` and the modules that it joins replace parts of the product
by wrong ones, `transition_mutants` the transitions of ledgers by those of `wrong_transitions` and its like.

Some wrong rules are caught elsewhere, since schedules seldom find the states that they need: limits of the number of
reservations, and a check of growth alone (`tests.state.model`, `sharing` and `shrunk`; `tests/state/ledger`), the age
of writes and reads (`tests/state/ledger/test_expire.py`).
"""
