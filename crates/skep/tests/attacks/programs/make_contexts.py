# Makes and removes contexts until somebody ends it.

import time

while True:
    try:
        ask_interpreter("DELETE", "/contexts/" + ask_interpreter("POST", "/contexts", b"{}")["id"])
    except OSError:
        time.sleep(0.2)
