"""The device plugin: devices of a node, published through the kubelet's device plugin API v1beta1.

Of `webhook` it imports `documents`, `policy` (schemas, formats and findings of documents), names of `accounting`,
`errors`, and of `server` the log and the durations. It imports no gate, no ledger and no cluster client, and only `cli`
imports it. The modules `device_config`, `device_inventory`, `health_transitions`, `container_allocation` and
`preferred_devices` are pure: files, sockets, threads and clocks are in the others.
"""
