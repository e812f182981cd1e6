"""The languages beside Python: what each of them can do, and what is special about one."""

import asyncio
import uuid

import pytest

from conftest import run_until_complete
from flavour import failure
from generation import expect_error
from interpreters import AWKWARD, REACHABLE, Interpreter
from languages import ALL, BASH, JAVA, JAVASCRIPT, LARGE, PLACE, R, TYPESCRIPT, in_languages

pytestmark = [
    pytest.mark.own_kernel("these are no kernels for Python"),
    pytest.mark.skipif(not REACHABLE, reason="this SDK reaches interpreters by name alone"),
]
# Each start of these takes a second: what needs one more is tried with one SDK.
SLOW = (JAVA, R)


class Homes:
    """A sandbox for each template that is asked for, and in it a context for each language beside the default one."""

    def __init__(self, sdk):
        self.sdk, self._interpreters, self._contexts = sdk, {}, {}

    async def interpreter(self, language):
        template = language.template
        if template not in self._interpreters:
            create = Interpreter.create(self.sdk, template, envs={"GLOBAL": AWKWARD}, timeout=900)
            self._interpreters[template] = await create
        return self._interpreters[template]

    async def run(self, language, code, **options):
        """Runs code in the default context of the language, or where the options say."""
        if "context" not in options:
            options["language"] = language.name
        return await (await self.interpreter(language)).run(code, **options)

    async def printed(self, language, code, **options):
        execution = await self.run(language, code, **options)
        assert execution.error is None, execution.error
        return "".join(execution.logs.stdout)

    async def context(self, language):
        """The language's context beside the default one, in a place of its own."""
        if language.name not in self._contexts:
            interpreter = await self.interpreter(language)
            self._contexts[language.name] = await interpreter.context(language=language.name, cwd="/tmp")
        return self._contexts[language.name]

    async def remove(self, language):
        context = self._contexts.pop(language.name)
        interpreter = await self.interpreter(language)
        await self.sdk.call(interpreter.sandbox.remove_code_context, context)

    async def kill(self):
        for interpreter in self._interpreters.values():
            await interpreter.kill()


@pytest.fixture(scope="module")
def homes(sdk):
    made = Homes(sdk)
    yield made
    run_until_complete(made.kill())


@in_languages()
@pytest.mark.deadline(180)
async def test_code_prints_fails_and_remembers(homes, language):
    assert await homes.printed(language, language.out) == "out\n"
    execution = await homes.run(language, language.err)
    # IRkernel ends a message twice.
    printed = "".join(execution.logs.stderr)
    assert (printed.rstrip("\n"), execution.logs.stdout, execution.error) == ("out", [], None)
    await homes.printed(language, language.keep)
    error = (await homes.run(language, language.failing)).error
    assert error.name == language.error[0] and language.error[1] in error.value
    assert await homes.printed(language, language.recall) == "42\n"


@in_languages(once=SLOW)
async def test_a_context_has_its_own_variables_and_place(homes, language):
    context = await homes.context(language)
    assert (context.language, context.cwd) == (language.name, "/tmp")
    assert await homes.printed(language, language.directory, context=context) == "/tmp\n"
    assert await homes.printed(language, language.directory) == "/home/user\n"
    await homes.printed(language, language.keep)
    assert (await homes.run(language, language.recall, context=context)).logs.stdout != ["42\n"]


@in_languages()
async def test_variables_of_the_sandbox_and_of_an_execution_are_seen_and_restored(homes, language):
    show_global = language.variable.replace("NAME", "GLOBAL")
    assert await homes.printed(language, language.variable) == "unset\n"
    assert await homes.printed(language, language.variable, envs={"NAME": AWKWARD}) == AWKWARD + "\n"
    assert await homes.printed(language, language.variable) == "unset\n"
    assert await homes.printed(language, show_global) == AWKWARD + "\n"
    assert await homes.printed(language, show_global, envs={"GLOBAL": "over"}) == "over\n"
    assert await homes.printed(language, show_global) == AWKWARD + "\n"


@in_languages(once=SLOW)
async def test_contexts_run_beside_each_other(homes, language):
    place = f"/tmp/{uuid.uuid4().hex}"
    context = await homes.context(language)
    waiting = asyncio.ensure_future(homes.run(language, language.wait.replace(PLACE, place), context=context))
    await homes.printed(language, language.make.replace(PLACE, place))
    assert (await asyncio.wait_for(waiting, 30)).error is None


@in_languages()
async def test_giving_up_interrupts_and_keeps_what_was_known(homes, language):
    await homes.printed(language, language.keep)
    expect_error(await failure(homes.run(language, language.asleep, timeout=1)), "TimeoutException", "timed out")
    assert await homes.printed(language, language.recall, timeout=20) == "42\n"


@in_languages(once=ALL)
async def test_an_endless_loop_is_interrupted_too(homes, language):
    await homes.printed(language, language.keep)
    expect_error(await failure(homes.run(language, language.endless, timeout=1)), "TimeoutException", "timed out")
    assert await homes.printed(language, language.recall, timeout=20) == "42\n"


@in_languages(once=SLOW)
async def test_the_death_of_a_kernel_is_one_error_and_the_next_execution_works(homes, language):
    context = await homes.context(language)
    seen = []
    await homes.run(language, language.die, context=context, on_error=seen.append)
    assert [(error.name, error.value) for error in seen] == [("ContextRestarting", "Context was restarted")]
    assert await homes.printed(language, language.out, context=context) == "out\n"
    assert await homes.printed(language, language.directory, context=context) == "/tmp\n"


@in_languages(once=SLOW)
@pytest.mark.new_only
async def test_a_context_is_listed_restarted_and_removed(homes, language):
    interpreter, context = await homes.interpreter(language), await homes.context(language)
    listed = await homes.sdk.call(interpreter.sandbox.list_code_contexts)
    assert (context.id, language.name, "/tmp") in [(each.id, each.language, each.cwd) for each in listed]
    assert [each.language for each in listed[:2]] == ["python", "javascript"]
    await homes.printed(language, language.keep, context=context)
    await homes.sdk.call(interpreter.sandbox.restart_code_context, context)
    assert (await homes.run(language, language.recall, context=context)).logs.stdout != ["42\n"]
    assert await homes.printed(language, language.directory, context=context) == "/tmp\n"
    await homes.remove(language)
    error = await failure(homes.run(language, language.out, context=context))
    expect_error(error, "NotFoundException", f"Context {context.id} not found")


@in_languages(once=ALL)
async def test_large_output_arrives(homes, language):
    length = 0

    def count(message):
        nonlocal length
        length += len(message.line)

    execution = await homes.run(language, language.large, on_stdout=count, timeout=50)
    assert (execution.error, length) == (None, LARGE << 20)


def table(language, *cases):
    """Cases of one language, each with its code and what comes of it."""
    feature = pytest.mark.feature(f"language.{language.name}")
    return lambda test: feature(pytest.mark.parametrize("code, expected", cases, ids=[case[0][:40] for case in cases])(test))


@table(
    JAVASCRIPT,
    ("1 + 1", "2"),
    ("'text'", "text"),
    ("({ a: 1, b: [1, 2] })", "{ a: 1, b: [ 1, 2 ] }"),
    ("10n ** 20n", "100000000000000000000n"),
    ("null", "null"),
    ("undefined", None),
    ("await new Promise((done) => setTimeout(() => done('slept'), 20))", "slept"),
    ("Promise.resolve([1, 2])", "[ 1, 2 ]"),
    ("import { join } from 'node:path'; join('a', 'b')", "a/b"),
    ("require('node:path').join('a', 'b')", "a/b"),
    ("const path = await import('node:path'); path.sep", "/"),
    ("const again = 1; again", "1"),
    ("const again = 2; again", "2"),
    ("class Bee { wings = 4 }; new Bee()", "Bee { wings: 4 }"),
    ("const typed: number = 7; typed", "7"),
)
async def test_the_value_of_a_javascript_cell_is_its_result(homes, code, expected):
    execution = await homes.run(JAVASCRIPT, code)
    assert (execution.text, execution.error) == (expected, None)


@table(
    JAVASCRIPT,
    ("throw new RangeError('far')", ("RangeError", "far")),
    ("Promise.reject(new TypeError('no'))", ("TypeError", "no")),
    ("await Promise.reject(7)", ("number", "7")),
    ("throw 'text'", ("string", "'text'")),
    ("let (", ("SyntaxError", "Unexpected token")),
    ("nothing_of_this_name", ("ReferenceError", "nothing_of_this_name is not defined")),
    ("require('nothing-of-this-name')", ("Error", "Cannot find module 'nothing-of-this-name'")),
    ("setTimeout(() => { throw new Error('later') }, 1); await new Promise((done) => setTimeout(done, 100))", ("Error", "later")),
    ("Promise.reject(new Error('unheard')); await new Promise((done) => setTimeout(done, 100))", ("Error", "unheard")),
)
async def test_an_error_of_a_javascript_cell_has_its_name(homes, code, expected):
    await homes.run(JAVASCRIPT, "var alive = 1")
    error = (await homes.run(JAVASCRIPT, code)).error
    assert error.name == expected[0] and expected[1] in error.value
    assert (await homes.run(JAVASCRIPT, "alive + 1")).text == "2"


@table(
    JAVASCRIPT,
    ("$$.html('<b>h</b>')", ("html", "<b>h</b>", True)),
    ("$$.svg('<svg/>')", ("svg", "<svg/>", True)),
    ("$$.png('iVBORw0KGgo=')", ("png", "iVBORw0KGgo=", True)),
    ("$$.json({ a: [1] })", ("json", {"a": [1]}, True)),
    ("$$.display().html('<i>h</i>')", ("html", "<i>h</i>", False)),
    ("({ _toHtml: () => '<u>h</u>' })", ("html", "<u>h</u>", True)),
)
async def test_what_javascript_displays_has_its_field(homes, code, expected):
    field, value, is_main = expected
    result = (await homes.run(JAVASCRIPT, code)).results[0]
    assert (getattr(result, field), result.is_main_result) == (value, is_main)


@pytest.mark.feature("language.javascript")
@pytest.mark.parametrize("name", ["js", " JavaScript "])
async def test_javascript_has_a_short_name_and_any_case(homes, name):
    interpreter = await homes.interpreter(JAVASCRIPT)
    await homes.run(JAVASCRIPT, "var shared = 'the same'")
    assert (await interpreter.run("shared", language=name)).text == "the same"


@pytest.mark.feature("language.typescript")
async def test_typescript_has_a_short_name_and_variables_of_its_own(homes):
    interpreter = await homes.interpreter(TYPESCRIPT)
    code = "interface Point { x: number }\nconst point: Point = { x: 1 }\nconst twice = <T>(y: T): T[] => [y, y]\ntwice(point)"
    assert (await interpreter.run(code, language="ts")).text == "[ { x: 1 }, { x: 1 } ]"
    assert (await homes.run(JAVASCRIPT, "point")).error.name == "ReferenceError"


@table(
    BASH,
    ("cd /usr; pwd", ("/usr\n", None)),
    ("pwd; cd", ("/usr\n", None)),
    ("twice() { echo $1 $1; }; twice a", ("a a\n", None)),
    ("set -- one two; echo $2", ("two\n", None)),
    ("seq 3 | while read n; do echo \"n$n\"; done", ("n1\nn2\nn3\n", None)),
    ("cat <<END\nhere\nEND", ("here\n", None)),
    ("printf '日本語 🐝'", ("日本語 🐝", None)),
    ("nothing_of_this_name", ("", "127")),
    ("echo before; exit 5", ("before\n", "5")),
    ("if true", ("", "2")),
)
async def test_a_bash_cell_prints_and_its_exit_code_is_its_error(homes, code, expected):
    execution = await homes.run(BASH, code)
    error = execution.error and execution.error.value
    assert ("".join(execution.logs.stdout), error) == expected and execution.results == []


@table(
    JAVA,
    ("1 + 1", "2"),
    ('"text"', "text"),
    ("record Point(int x, String y) {}\nnew Point(1, \"a\")", "Point[x=1, y=a]"),
    ("import java.util.stream.*;\nIntStream.range(0, 4).boxed().map(i -> i * i).toList()", "[0, 1, 4, 9]"),
    ("int again = 1; again", "1"),
    ('String again = "other"; again', "other"),
    ("int later() { return 5; }\nlater()", "5"),
    ("null", None),
    ("var list = new java.util.ArrayList<String>();", None),
)
async def test_the_value_of_a_java_cell_is_its_result(homes, code, expected):
    execution = await homes.run(JAVA, code)
    assert (execution.text, execution.error) == (expected, None)


@table(
    JAVA,
    ('int wrong = "a";', ("CompilationException", "cannot be converted to int")),
    ("String nothing = null; nothing.length()", ("NullPointerException", 'because "nothing" is null')),
    ("1 / 0", ("ArithmeticException", "/ by zero")),
    ("nothing_of_this_name", ("CompilationException", "cannot find symbol: variable nothing_of_this_name")),
)
async def test_an_error_of_a_java_cell_has_its_name(homes, code, expected):
    error = (await homes.run(JAVA, code)).error
    assert error.name == expected[0] and expected[1] in error.value


@pytest.mark.feature("language.java")
async def test_the_heap_of_java_follows_the_memory_of_the_sandbox(homes):
    code = 'var line = java.nio.file.Files.readAllLines(java.nio.file.Path.of("/proc/meminfo")).get(0);\n'
    code += '(Runtime.getRuntime().maxMemory() >> 10) + " " + line.replaceAll("\\\\D", "")'
    execution = await homes.run(JAVA, code)
    assert execution.error is None, execution.error
    heap, memory = map(int, execution.text.split())
    assert memory // 2 < heap < memory


@table(
    R,
    ("1 + 1", "[1] 2"),
    ('"text"', '[1] "text"'),
    ("x <- 1:3", None),
    ("x * 2", "[1] 2 4 6"),
    ("sapply(x, function(n) n^2)", "[1] 1 4 9"),
)
async def test_the_value_of_an_r_cell_is_its_result(homes, code, expected):
    execution = await homes.run(R, code)
    assert execution.error is None
    assert [result.text for result in execution.results] == ([] if expected is None else [expected])


@pytest.mark.feature("language.r")
async def test_r_shows_plots_as_pictures_and_frames_as_tables(homes):
    result = (await homes.run(R, 'plot(1:10, main = "title")')).results[0]
    assert result.png.startswith("iVBORw0KGgo")
    result = (await homes.run(R, "head(mtcars, 3)")).results[0]
    assert "<table" in result.html and "Mazda RX4" in result.text


@pytest.mark.feature("interpreter.refusals")
async def test_a_language_that_is_not_installed_is_told_which_are(homes):
    interpreter = await homes.interpreter(JAVASCRIPT)
    error = await failure(interpreter.run("1", language="cobol"))
    expect_error(error, "SandboxException", ["'cobol' kernel is not available", "Installed: python, bash, ", "javascript, "])
