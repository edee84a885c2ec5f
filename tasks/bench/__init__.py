"""The validation loop: the same prompts, many times, and a report beside the published figures.

plan.py       what is asked: pure, and the same for the same number
histogram.py  distributions that can be stored, added and asked for quantiles; pure
watch.py      what one reader saw of one job: times, bursts and gaps; pure
sample.py     what became of one prompt
purse.py      the spend limit; pure
book.py       the state file: one line a sample, so that a run that was killed goes on
drive.py      so many prompts at a time, until all are through or something says stop
ours.py       a prompt as a job: through line, worker and log, to a live reader
sdk.py        the same prompt through the official SDK
stage.py      the private stack of a simulated run, its clocks shortened by one factor
figures.py    from samples to figures; pure
report.py     from figures to the table and the JSON
page.py       from the report to one HTML page;  plots.py  its pictures
run.py        a whole run
"""
