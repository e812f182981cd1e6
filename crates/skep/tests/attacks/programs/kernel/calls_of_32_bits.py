# Makes a call the way programs of 32 bits do, with other numbers.
# Held by: filter
# Needs: 32-bit calls


def attempt():
    import mmap

    # mov eax, 425 (io_uring_setup); xor ebx, ebx; xor ecx, ecx; int 0x80; ret
    code = b"\x53\xb8\xa9\x01\x00\x00\x31\xdb\x31\xc9\xcd\x80\x5b\xc3"
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if answer in (-errno.ENOSYS, -errno.EPERM):
        raise OSError(-answer, os.strerror(-answer))
    return f"the kernel answered {answer}"


if platform.machine() != "x86_64":
    held("no such calls on this processor")
attack(lambda: in_child(attempt))
