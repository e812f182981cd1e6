# Makes the file API wait for ever at a pipe.
# Control: a file API that opens what it is told


def attempt():
    import tempfile

    pipe = os.path.join(tempfile.mkdtemp(), "innocent.txt")
    os.mkfifo(pipe)
    try:
        ask_files("GET", "/files", query={"path": pipe, "username": "root"}, timeout=2)
    except TimeoutError:
        # Whoever was waiting may go on.
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return "it waits"
    return None


attack(attempt)
