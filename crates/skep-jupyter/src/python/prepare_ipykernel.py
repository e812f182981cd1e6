import zmq
from IPython import get_ipython

thread = get_ipython().kernel.iopub_thread
thread.schedule(lambda: thread.socket.setsockopt(zmq.XPUB_NODROP, 1))
