import os

os.chdir(argument)
