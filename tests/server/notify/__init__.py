"""Messages to receivers: their file, their bodies, and what a local receiver gets."""
