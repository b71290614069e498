"""Manifests: what somebody would hand to `kubectl apply`, with every field's place in its file.

The rule of this room: `files` alone reads; everything else turns text into nodes, nodes into JSON and paths into
places, purely and within bounds. Values are read as kubectl reads them, since that is what the API server would get.
Policy files have a reader of their own (`webhook.policy.compose`): they are YAML 1.2 and never see a float.
"""
