"""A job as it is kept: its terms, its record, how it is submitted, found and cancelled."""
