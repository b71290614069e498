"""Eyes on the cluster: what pods, namespaces and nodes there are, kept current by lists and watches.

The rule of this room: `reflector` follows one resource and is pure over the ports in `ports`; `view`, `namespaces` and
`nodes` keep what it tells, for any thread to ask; `connect`, `pool`, `stream` and `runner` alone touch sockets, threads
and clocks. Nothing here knows the ledgers or any other adapter of the state. How it works: docs/watching.md.
"""
