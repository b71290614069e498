"""The allocator of devices, against the answers of Kubernetes' own."""
