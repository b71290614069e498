"""The table of all settings and the sources of their values. No module here uses a setting."""
