# Changes a setting of the kernel in the part of /sys that programs need to read.
# Held by: minimal sys, own users

path = "/sys/kernel/mm/transparent_hugepage/enabled"
attack(lambda: os.close(os.open(path, os.O_WRONLY)) or f"opened {path} for writing")
