# Makes empty files.
# Expect: ENOSPC

os.makedirs("/var/tmp/inodes")
count = 0
try:
    while count < 10_000_000:
        os.mknod(f"/var/tmp/inodes/{count}")
        count += 1
    escape("no limit")
except OSError as error:
    hold(f"{errno.errorcode[error.errno]} after {count} files")
