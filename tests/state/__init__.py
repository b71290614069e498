"""Tests of webhook.state."""
