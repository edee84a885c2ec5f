"""Files of requests, as the OpenAI Batch API has them: read, run as jobs, written as they end.

lines    the input, line by line, whatever is in it
bodies   the body of one request -> a job
answers  a job -> the body of its answer
output   what stands in the output, and how far an interrupted run had come
state    what a batch is beyond the lines it has written
reading  the text of an answer, and the calls in it
running  the loop: a bounded number of jobs at a time
"""
