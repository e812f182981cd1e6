# Opens files and never closes them.
# Expect: EMFILE

files = []
try:
    while len(files) < 10_000_000:
        files.append(os.open("/dev/null", os.O_RDONLY))
    escape("no limit")
except OSError as error:
    hold(f"{errno.errorcode[error.errno]} after {len(files)} files")
