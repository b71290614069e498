"""The demonstration of `make run`: a gate on this machine as a child process, and three pods that are sent to it."""
