"""Events on the owners of pods."""
