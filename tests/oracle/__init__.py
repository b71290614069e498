"""Questions for Kubernetes' own code, and the programs that answer them; see README.md."""
