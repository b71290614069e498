"""The cost of scheduled audits for admission requests."""
