# Becomes root through sudo, with all that root may.
# Held by: capabilities
# As: user


def attempt():
    may = effective(["sudo", os.path.realpath(sys.executable)])
    return f"may {may:x}" if may >> CAP_SYS_ADMIN & 1 else None


attack(attempt)
