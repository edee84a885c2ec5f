"""Seeing what goes on: log lines, numbers, traces and the answer to "does work get done?"."""
