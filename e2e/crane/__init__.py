"""crane, built from its Go module: the registry and the images of the rehearsal of a release."""
