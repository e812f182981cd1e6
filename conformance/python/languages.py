"""The languages beside Python, and how each of them says what every language can say."""

import dataclasses

import pytest

from interpreters import LANGUAGES, TEMPLATE

# A file name, for code that waits for another context.
PLACE = "@PLACE@"
# How much output is large here, in mebibytes.
LARGE = 10


@dataclasses.dataclass(frozen=True)
class Language:
    name: str
    template: str
    # Prints `out` and a newline, to either stream.
    out: str
    err: str
    # Keeps a value, and prints the one after it.
    keep: str
    recall: str
    # Prints a variable of the environment, or `unset`.
    variable: str
    # Prints the working directory.
    directory: str
    # Fails, and how: the name of the error and a part of its text.
    failing: str
    error: tuple
    # Never end: one works all the time, one waits.
    endless: str
    asleep: str
    # Waits until a file is there, and makes it.
    wait: str
    make: str
    # Ends the kernel.
    die: str
    # Prints `LARGE` mebibytes.
    large: str


JAVASCRIPT = Language(
    name="javascript",
    template=TEMPLATE,
    out="console.log('out')",
    err="console.error('out')",
    keep="const kept = 41",
    recall="console.log(kept + 1)",
    variable="console.log(process.env.NAME ?? 'unset')",
    directory="console.log(process.cwd())",
    failing="null.x",
    error=("TypeError", "Cannot read properties of null"),
    endless="for (;;) {}",
    asleep="await new Promise(() => setInterval(() => {}, 1000))",
    wait="while (!require('fs').existsSync('@PLACE@')) await new Promise((done) => setTimeout(done, 20))",
    make="require('fs').writeFileSync('@PLACE@', '')",
    die="process.exit(3)",
    large="for (let i = 0; i < 160; i++) console.log('x'.repeat(65535))",
)

TYPESCRIPT = dataclasses.replace(
    JAVASCRIPT,
    name="typescript",
    out="const word: string = 'out'; console.log(word)",
    keep="enum Kept { Value = 41 }",
    recall="console.log(Kept.Value + 1)",
    failing="(null as any).x",
)

BASH = Language(
    name="bash",
    template=TEMPLATE,
    out="echo out",
    err="echo out >&2",
    keep="kept=41",
    recall="echo $((kept + 1))",
    variable='echo "${NAME-unset}"',
    directory="pwd",
    failing="(exit 7)",
    error=("", "7"),
    endless="while :; do :; done",
    asleep="sleep 300",
    wait="until [ -e @PLACE@ ]; do sleep 0.02; done",
    make="touch @PLACE@",
    die="kill -9 $$",
    large="for number in {1..160}; do printf '%065535d\\n' 0; done",
)

JAVA = Language(
    name="java",
    template=LANGUAGES,
    out='System.out.println("out")',
    err='System.err.println("out")',
    keep="int kept = 41;",
    recall="System.out.println(kept + 1)",
    variable='System.out.println(System.getProperty("NAME", "unset"))',
    directory='System.out.println(System.getProperty("user.dir"))',
    failing='throw new IllegalStateException("no")',
    error=("IllegalStateException", "no"),
    endless="while (true) {}",
    asleep="Thread.sleep(300_000)",
    wait='while (!new java.io.File("@PLACE@").exists()) Thread.sleep(20);',
    make='new java.io.File("@PLACE@").createNewFile();',
    die="System.exit(3)",
    large='for (int i = 0; i < 160; i++) System.out.println("x".repeat(65535));',
)

R = Language(
    name="r",
    template=LANGUAGES,
    out='cat("out\\n")',
    err='message("out")',
    keep="kept <- 41",
    recall='cat(kept + 1, "\\n", sep = "")',
    variable='cat(Sys.getenv("NAME", "unset"), "\\n", sep = "")',
    directory='cat(getwd(), "\\n", sep = "")',
    failing='stop("no")',
    error=("ERROR", "no"),
    endless="while (TRUE) {}",
    asleep="Sys.sleep(300)",
    wait='while (!file.exists("@PLACE@")) Sys.sleep(0.02)',
    make='invisible(file.create("@PLACE@"))',
    die="tools::pskill(Sys.getpid(), 9)",
    large='for (i in 1:160) cat(strrep("x", 65535), "\\n", sep = "")',
)

ALL = (JAVASCRIPT, TYPESCRIPT, BASH, JAVA, R)


def marks(language, once):
    return [pytest.mark.feature(f"language.{language.name}"), *([pytest.mark.once] if once else [])]


def in_languages(once=()):
    """Runs a case in each language; in those of `once` with one SDK in one mode."""
    cases = [pytest.param(each, id=each.name, marks=marks(each, each in once)) for each in ALL]
    return pytest.mark.parametrize("language", cases)
