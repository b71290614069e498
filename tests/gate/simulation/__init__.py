"""Replicas of the product's own parts under seeded schedules: its charging, its keeper, its batches and its views.

The rule of this room: nothing here promises, counts or batches; that is `webhook.gate` and `webhook.state`. What they
stand on is simulated: threads of which one at a time runs (`tasks`), a store with an etcd that stalls and answers that
get lost (`store`), watches that are behind and clocks that are apart (`replica`), an API server that calls again
(`api_server`). `world` has every step: of people (`users`), of the API server, of what befalls etcd (`etcd`) and of
replicas (`processes`), over what all of them find (`ground`).
`looking` says what must hold after every step, `running` plays schedules, `variants` has wrong parts to be found.

`tests.state.simulation` plays far more schedules over the pure transitions; this plays what calls them.
"""
