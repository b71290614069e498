"""Eyes on the cluster: what pods, namespaces and nodes there are, kept current by lists and watches.

The rule of this room: `reflector` follows one resource and is pure over the ports in `ports`; `columns`, `namespaces`
and `nodes` keep what it tells; `connect` and `runner` alone touch sockets, threads and clocks. Nothing here knows the
ledgers or any other adapter of the state.
"""
