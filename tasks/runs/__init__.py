"""A run: one refactor of many files, as several jobs.

select    what is sent: files, directories and globs; ignore: without what git ignores
related   which files have to do with each other; pack: which travel together
plan      what a run will send, before it does
record    what a run is, in the store, so that it can be left and taken up again
begin     submitting it, and finding everything of it again
progress  what has come so far: pure, fed by the jobs' logs
delivery  what becomes of it: checked in a copy (scratch), then shown, written, put on a branch
"""
