"""Boot steps: each starts and stops one part of the worker with Celery."""
