"""File edits: the prompt that sends files, the answer that brings them back, the diff."""
