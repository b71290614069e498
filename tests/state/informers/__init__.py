"""The stores of a watched cluster."""
