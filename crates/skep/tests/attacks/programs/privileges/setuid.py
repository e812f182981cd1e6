# Becomes root through a set-user-id program of its own, with all that root may.
# Held by: capabilities
# As: user


def attempt():
    import shutil
    import subprocess
    import tempfile

    own = os.path.join(tempfile.mkdtemp(), "python3")
    shutil.copy(os.path.realpath(sys.executable), own)
    subprocess.run(["sudo", "sh", "-c", f"chown root:root {own} && chmod 4755 {own}"], check=True)
    may = effective([own])
    return f"may {may:x}" if may >> CAP_SYS_ADMIN & 1 else None


attack(attempt)
