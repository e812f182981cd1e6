# Gives a program capabilities by marking its file.
# Held by: capabilities


def attempt():
    import shutil
    import tempfile

    own = os.path.join(tempfile.mkdtemp(), "python3")
    shutil.copy(os.path.realpath(sys.executable), own)
    version, effective_bit, bits = 0x02000000, 1, 1 << CAP_SYS_ADMIN
    os.setxattr(own, "security.capability", struct.pack("<5I", version | effective_bit, bits, 0, 0, 0))
    os.chmod(own, 0o755)
    may = effective([own])
    return f"may {may:x}" if may >> CAP_SYS_ADMIN & 1 else None


attack(attempt)
