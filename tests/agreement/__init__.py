"""The gate, check, audit, usage and scenarios answer alike."""
