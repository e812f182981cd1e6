# Has the machine start a program of ours when a cgroup becomes empty.
# Held by: filter, capabilities, own users, own cgroups


def attempt():
    os.makedirs("/tmp/cgroup", exist_ok=True)
    # A hierarchy without controllers: those may be in use by the other version of cgroups.
    call("mount", b"none", b"/tmp/cgroup", b"cgroup", 0, b"none,name=attack")
    try:
        os.close(os.open("/tmp/cgroup/release_agent", os.O_WRONLY))
        return "release_agent can be written"
    finally:
        call("umount2", b"/tmp/cgroup", 2)


attack(attempt)
