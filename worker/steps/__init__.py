"""What runs in a worker process beside Celery, and the signals that start and stop it."""
