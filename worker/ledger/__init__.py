"""What jobs have used: by attempt in the job's record, and added up by day for everybody."""
