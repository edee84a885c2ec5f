"""Seeing what goes on: numbers, traces and the answer to "does work get done?"."""
