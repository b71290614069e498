"""The controller by which the gate registers itself, over a store in memory."""
