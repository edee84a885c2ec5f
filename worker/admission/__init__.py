"""The waiting line, accounts and leases; one .lua file per atomic operation."""
