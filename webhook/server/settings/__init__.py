"""One table of all settings, and the sources of their values: no module here uses a setting."""
