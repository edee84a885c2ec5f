"""Celery's messages: kept, published, received and revoked; a lease decides what runs."""
