"""The client of API servers: transport, codec, reflector and informer. It imports tallygate.webhook.errors only."""
