"""The provider simulator: an OpenAI-compatible server with full control of its bytes.

    python -m tasks.local.simulator

A request goes through three pure stages and one that does I/O:

    ask      what was asked, parsed and seeded                     ask.py
    answer   the text and the reasoning bursts intended            answer.py, prose.py, refactor.py
    events   the answer in a dialect, with its pace                beats.py, chat.py, responses.py
    steps    heads, pauses, writes and endings of one connection   framing.py, steps.py
    perform  the steps, in real time, on a socket                  performer.py

A scenario (`scenarios/`) replaces one of the stages; the server knows none of them by name.
It imports nothing of the product, so that the product can be compared against it.
"""
