"""Tests of the files for GitHub and pre-commit: workflows, and actions and hooks for other repositories."""
