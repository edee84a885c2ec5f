"""What must be true before jobs are safe, and what to do if it is not."""
