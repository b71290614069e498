"""The relay: its order of upstreams, its timeouts, and its treatment of their responses."""
