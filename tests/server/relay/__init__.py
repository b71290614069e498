"""The relay: a real HAProxy with the configuration of deploy/."""
