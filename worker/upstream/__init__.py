"""The patched client: bytes from a provider become happenings, and the end is earned."""
