"""What can be asked for, and how people ask."""
