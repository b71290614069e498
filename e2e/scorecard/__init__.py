"""OpenSSF Scorecard, built from its Go module: its checks of files, run on a folder."""
