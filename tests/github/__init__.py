"""Tests of the files for GitHub: its workflows, and the action for other repositories."""
