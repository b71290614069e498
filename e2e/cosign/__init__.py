"""cosign, built from its Go module, for the rehearsal of a release."""
