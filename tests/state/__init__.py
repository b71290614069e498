"""Tests of tallygate.webhook.state."""
