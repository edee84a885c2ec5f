"""Bytes from a socket without detours: the event loop of the engine, and reads past transports."""
