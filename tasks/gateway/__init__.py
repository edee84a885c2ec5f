"""The gateway: jobs and their live logs over HTTP, for everything that can not speak Redis.

operations   what an operation is: path, scope, query, body, replies
routes       all operations there are; whatever is added to it is served, guarded and described
application  the ASGI application
serving      the server it runs on
"""
