"""The job log: entry types, append, writer, reader, verify."""
