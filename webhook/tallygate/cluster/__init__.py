"""The state of a cluster, in the stores by which the gate counts, and the usage of caps over it."""
