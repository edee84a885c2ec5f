"""Faults on purpose, against real processes, and a count of what they broke: nothing, or a bug.

plan.py      what runs and which fault comes when, from a seed
stage.py     the processes: Valkey, simulator, workers, and what stands between them
proxy.py     a cable that can be cut
faults.py    one function a fault
readers.py   readers: live, late, and those that go away and come back
recovery.py  how long jobs were without a worker
verdict.py   what was said against what was sent; pure
run.py       one whole run
"""
