"""Redis as the worker sees it: connections, key names, scripts, and what a fault of it means."""
