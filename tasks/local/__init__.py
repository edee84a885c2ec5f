"""The embedded stack: a private Valkey, a worker, the provider simulator."""
