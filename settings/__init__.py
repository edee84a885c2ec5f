"""The typed settings everything runs with. Imports nothing of ours."""
