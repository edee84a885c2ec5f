"""The gateway: jobs and their live logs over HTTP, for everything that can not speak Redis.

operations   what an operation is: path, scope, query, body, replies
routes       all operations there are; whatever is added to it is served, guarded and described
jobs, events, responses, overview, health, description, page   the operations themselves
tokens, access, callers, guard   who calls, and what stands before every request
frames, streams, many   event streams: on the wire, as they are sent, of several jobs
problems     what can go wrong, with a code that never changes
application  the ASGI application
serving      the server it runs on
"""
