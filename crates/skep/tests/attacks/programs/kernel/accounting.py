# Has the machine write an account of all its processes to a file that does not exist.
# Held by: filter, capabilities, own users

attack(lambda: call("acct", b"/nonexistent"), reached={errno.ENOENT})
