"""`python -m tasks.cli` is `longstream`."""

from tasks.cli import main

main()
