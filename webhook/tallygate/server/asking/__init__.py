"""Who asks, and what he may see: the API server says both, and nothing here decides by itself, or logs a token."""
