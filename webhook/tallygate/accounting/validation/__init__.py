"""Resource problems that the API server reports, and those that it accepts.

Each function returns all of them, in a fixed order.
"""
