"""The review: from a typed request and the state of a cluster to an Outcome; no bytes, no reservation, no clock."""
