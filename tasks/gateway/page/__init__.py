"""The page: what there is, for people with a browser.

Everything is rendered here and can be read without a script; the script only keeps it fresh. No
request leaves for anywhere else.
"""
