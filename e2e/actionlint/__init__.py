"""actionlint, built from its Go module, for the workflows in .github."""
