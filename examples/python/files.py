"""A file in, work on it, files out."""

from e2b_code_interpreter import Sandbox

TABLE = "city,degrees\nOslo,4\nRome,16\nCairo,28\n"

with Sandbox.create() as sandbox:
    sandbox.files.write("/home/user/data/cities.csv", TABLE)
    execution = sandbox.run_code(
        "import pandas as pd\n"
        "cities = pd.read_csv('/home/user/data/cities.csv')\n"
        "cities['fahrenheit'] = cities.degrees * 9 / 5 + 32\n"
        "cities.to_csv('/home/user/data/fahrenheit.csv', index=False)\n"
    )
    if execution.error:
        raise SystemExit(execution.error.traceback)
    for entry in sandbox.files.list("/home/user/data"):
        print(entry.name)
    print(sandbox.files.read("/home/user/data/fahrenheit.csv"))

    # Bytes, such as a picture, a spreadsheet or an archive.
    archive = "/tmp/data.tar.gz"
    sandbox.commands.run(f"tar -czf {archive} -C /home/user data")
    content = sandbox.files.read(archive, format="bytes")
    print("archive:", len(content), "bytes")
