"""The engine: takes a job from the waiting line to its sealed log."""
