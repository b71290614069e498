"""The command `init`: policies, scenarios that test them, and files for CI, commits and editors."""
