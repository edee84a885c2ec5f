"""One attempt of a job: from its lease to what it leaves behind."""
