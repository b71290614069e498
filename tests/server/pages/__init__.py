"""The pages of a server of asks, by Flask's test client."""
