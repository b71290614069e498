"""Settings: one table of them all, and where their values come from. It knows nothing of what they are for."""
