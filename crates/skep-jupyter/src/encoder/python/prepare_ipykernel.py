import zmq
from IPython import get_ipython

shell = get_ipython()
thread = shell.kernel.iopub_thread
# The socket is not shared between threads, so its own thread does it.
thread.schedule(lambda: thread.socket.setsockopt(zmq.XPUB_NODROP, 1))
shell.run_line_magic("colors", "nocolor")
shell.display_formatter.formatters["text/plain"].max_seq_length = 0
