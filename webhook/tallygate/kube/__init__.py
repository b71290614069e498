"""The client of API servers: transport, codec, reflector and informer. It imports tallygate.errors only."""
