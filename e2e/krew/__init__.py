"""krew and its validator of manifests, built from krew's Go module, for the manifest of the plugin."""
