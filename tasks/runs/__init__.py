"""A run: one refactor of many files, as several jobs.

select    what is sent: files, directories and globs, without what git ignores
pack      which files travel together
record    what a run is, in the store, so that it can be left and taken up again
progress  what has come so far: pure, fed by the jobs' logs
delivery  what becomes of it: checked, then shown, written, put on a branch or in a patch
"""
