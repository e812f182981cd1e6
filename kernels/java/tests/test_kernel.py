"""The Java kernel, over its socket."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .kernel_case import KernelCase

ODD_VALUES = ["", "'", '"', "\\", "\\u0041", "a\nb\r\n", "${x}", "😀é\u2028", " ", "x" * (1 << 20)]


class Cells(KernelCase):
    def test_what_a_child_prints_belongs_to_its_cell(self) -> None:
        for number in range(40):
            self.assertEqual(self.output(f'new ProcessBuilder("echo", "{number}").inheritIO().start().waitFor()'), f"{number}\n")
        # Bytes that begin like the end of a cell, and much more than a pipe holds.
        binary = r'new ProcessBuilder("sh", "-c", "head -c 300000 /dev/zero | tr \'\\0\' \'\\377\'").inheritIO().start().waitFor()'
        self.assertEqual(self.output(binary), "\ufffd" * 300_000)

    def test_declarations_stay(self) -> None:
        self.kernel.run("import java.util.zip.*;\nint x = 5;\nint twice(int n) { return 2 * n; }\nrecord Point(int a, int b) {}").ok()
        self.assertEqual(self.value("twice(x) + new Point(1, 2).b() + new CRC32().getValue()"), "12")
        self.kernel.run("int twice(int n) { return 3 * n; }").ok()
        self.assertEqual(self.value("x = 4; twice(x)"), "12")

    def test_the_value_of_the_last_expression_is_the_result(self) -> None:
        for code, value in (
            ('"text"', "text"),
            ("1 + 1;", "2"),
            ("int n = 3", None),
            ("int m = 3; m", "3"),
            ("String none = null; none", None),
            ("System.out.print(1)", None),
            ("new int[] {1, 2}", "int[2] { 1, 2 }"),
            ("List.of(1, 2).stream().map(v -> v * 2).toList()", "[2, 4]"),
            ("5;\nint last = 6;", None),
            ("// only a comment", None),
            ("", None),
        ):
            with self.subTest(code):
                self.assertEqual(self.value(code), value)

    def test_the_first_message_of_println_is_the_text_alone(self) -> None:
        outcome = self.kernel.run('System.out.println("Hello, World!")').ok()
        self.assertEqual([message["text"] for message in outcome.of_type("stream")], ["Hello, World!", "\n"])

    def test_streams_are_apart_and_whole(self) -> None:
        outcome = self.kernel.run('System.out.print("aé😀"); System.err.print("b"); System.out.print("c"); System.out.write(0xff); System.out.flush();').ok()
        texts = [(message["name"], message["text"]) for message in outcome.of_type("stream")]
        self.assertEqual(texts[:2], [("stdout", "aé😀"), ("stderr", "b")])
        self.assertEqual(outcome.text(), "aé😀c�")

    def test_children_and_their_errors_are_heard(self) -> None:
        code = 'new ProcessBuilder("sh", "-c", "echo out; echo err >&2; cat; ls /proc/self/fd").inheritIO().start().waitFor()'
        outcome = self.kernel.run(code).ok()
        self.assertEqual((outcome.text(), outcome.text("stderr"), outcome.value["text/plain"]), ("out\n0\n1\n2\n3\n", "err\n", "0"))
        self.assertEqual(self.value("System.in.read()"), "-1")

    def test_much_output_arrives_whole(self) -> None:
        outcome = self.kernel.run('for (int i = 0; i < 200_000; i++) System.out.println("line " + i);').ok()
        lines = outcome.text().splitlines()
        self.assertEqual((len(lines), lines[-1]), (200_000, "line 199999"))
        self.assertLess(max(len(message["text"]) for message in outcome.of_type("stream")), 65_537)
        self.assertEqual(len(self.output('System.out.print("é".repeat(5_000_000))')), 5_000_000)

    def test_threads_print_after_their_cell(self) -> None:
        flag = Path(tempfile.mkdtemp(), "flag")
        self.kernel.run(f'new Thread(() -> {{ while (!new File("{flag}").exists()) Thread.onSpinWait(); System.out.print("late"); }}).start()').ok()
        flag.touch()
        message = self.kernel.receive()
        self.assertEqual((message["text"], message["parent"]), ("late", None))
        flag.unlink()
        flag.parent.rmdir()


class Failures(KernelCase):
    def test_what_does_not_compile_is_told_with_its_place(self) -> None:
        outcome = self.kernel.run('int a = 1;\n\n  int b = "x";\nint c = 1;')
        self.assertEqual((outcome.error["kind"], outcome.error["ename"]), ("syntax", "CompilationException"))
        self.assertIn("line 3: incompatible types", outcome.error["evalue"])
        self.assertIn('  int b = "x";\n          ^^^\n', outcome.error["traceback"][0])
        self.assertEqual(self.value("a"), "1")
        self.assertIn("cannot find symbol: variable c", self.kernel.run("c").error["evalue"])

    def test_a_variable_is_called_as_in_its_cell(self) -> None:
        error = self.kernel.run("Object nothing = null;\nnothing.toString()").error
        self.assertEqual(error["evalue"], 'Cannot invoke "Object.toString()" because "nothing" is null')
        self.assertIn('because "nothing" is null', "".join(error["traceback"]))

    def test_what_is_unfinished_is_told(self) -> None:
        for code in ("int q = (", "void f() {", 'String s = """\nabc', "if (true"):
            error = self.kernel.run(code).error
            self.assertEqual((error["kind"], error["ename"]), ("syntax", "IncompleteSourceException"), code)
        for code in ('"abc', "int int", ")", "%magic", "foo bar baz"):
            self.assertEqual(self.kernel.run(code).error["kind"], "syntax", code)

    def test_exceptions_have_their_name_and_the_lines_of_the_cells(self) -> None:
        first = self.kernel.run("int zero = 0;\n// divides\n/* badly */ int divide(int n) {\n    return n / zero;\n}").ok().of_type("execute_input")[0]["execution_count"]
        error = self.kernel.run("\ndivide(3);").error
        self.assertEqual((error["kind"], error["ename"], error["evalue"]), ("runtime", "ArithmeticException", "/ by zero"))
        self.assertEqual(
            "".join(error["traceback"]),
            f"java.lang.ArithmeticException: / by zero\n    at divide (cell {first}, line 4)\n    at (cell {first + 1}, line 2)\n",
        )

    def test_causes_and_classes_of_the_user(self) -> None:
        self.kernel.run("class Mine extends RuntimeException { Mine(Throwable t) { super(null, t); } }").ok()
        error = self.kernel.run('throw new Mine(new IOException("inner"))').error
        self.assertEqual(error["ename"], "Mine")
        self.assertIn("Caused by: java.io.IOException: inner\n", error["traceback"])

    def test_a_failing_to_string_and_deep_recursion_and_no_memory(self) -> None:
        self.kernel.run('class Bad { public String toString() { throw new IllegalStateException("no text"); } }').ok()
        self.assertEqual(self.kernel.run("new Bad()").error["ename"], "IllegalStateException")
        self.assertEqual(self.kernel.run("int deep(int n) { return deep(n + 1) + 1; } deep(0)").error["ename"], "StackOverflowError")
        self.assertEqual(self.kernel.run("new int[Integer.MAX_VALUE]").error["ename"], "OutOfMemoryError")
        self.assertEqual(self.value("1 + 1"), "2")

    def test_what_is_used_before_it_is_there(self) -> None:
        outcome = self.kernel.run("int early() { return late() + 1; }").ok()
        self.assertIn("early cannot be used until there is method late()", outcome.text("stderr"))
        self.assertIn("needs method late()", self.kernel.run("early()").error["evalue"])
        self.assertEqual(self.value("int late() { return 41; } early()"), "42")


class Interrupts(KernelCase):
    def test_whatever_a_cell_does_it_ends_and_the_state_stays(self) -> None:
        self.kernel.run("int kept = 7; int n = 0; Object lock = new Object(); void spin() { while (true) { n++; } }").ok()
        for code in (
            "while (true) {}",
            "for (;;) { try { while (true) n++; } catch (Throwable ignored) { } finally { n = 0; } }",
            "spin();",
            "Runnable r = () -> { do { n++; } while (n != -1 || true); }; r.run();",
            "Thread.sleep(1_000_000);",
            "synchronized (lock) { lock.wait(); }",
            "new CompletableFuture<String>().get();",
            'new ProcessBuilder("sleep", "1000").start().waitFor();',
            "Stream.iterate(1, v -> { for (int i = 0; i < 2; i++) n++; return v + 1; }).forEach(v -> { for (int i = 0; i < 2; i++) n++; });",
            "int i = 0; switch (i) { case 0: while (i >= 0) { i = (i + 1) % 5; } }",
        ):
            with self.subTest(code):
                error = self.interrupt_at_go(f'System.out.print("go"); {code}').error
                self.assertEqual((error["kind"], error["ename"]), ("interrupted", "KeyboardInterrupt"))
                self.assertEqual(self.value("kept"), "7")

    def test_snippets_after_the_interrupted_one_do_not_run(self) -> None:
        self.interrupt_at_go('int after = 0; System.out.print("go"); Thread.sleep(1_000_000); after = 1;')
        self.assertEqual(self.value("after"), "0")

    def test_between_cells_it_is_ignored(self) -> None:
        self.kernel.interrupt()
        self.kernel.run("1")
        self.assertEqual(self.value("2"), "2")


class Requests(KernelCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.kernel = cls.start(BASE="process")

    def test_any_value_is_visible_in_its_execution_and_gone_afterwards(self) -> None:
        show = 'System.out.print(System.getProperty("VALUE") + "|" + System.getenv("VALUE"))'
        for value in ODD_VALUES:
            with self.subTest(value[:20]):
                text = self.kernel.run(show, env={"VALUE": value}).ok().text()
                self.assertTrue(text == f"{value}|{value}", text[:60])
        self.assertEqual(self.output(show), "null|null")

    def test_children_see_them(self) -> None:
        code = 'new ProcessBuilder("printenv", "VALUE").inheritIO().start().waitFor()'
        self.assertEqual(self.kernel.run(code, env={"VALUE": "a'b\n"}).ok().text(), "a'b\n\n")

    def test_layers(self) -> None:
        def layer(name: str, **variables: str) -> None:
            self.assertEqual(self.kernel.ask({"type": "environment", "layer": name, "variables": variables})["status"], "ok")

        show = 'for (String name : List.of("BASE", "S", "C")) System.out.print(System.getProperty(name, "-") + System.getenv().getOrDefault(name, "-") + " ")'
        self.assertEqual(self.output(show), "processprocess -- -- ")
        layer("sandbox", S="s", BASE="layer")
        layer("context", C="c", S="over")
        self.assertEqual(self.output(show), "layerlayer overover cc ")
        self.assertEqual(self.kernel.run(show, env={"S": "now"}).ok().text(), "layerlayer nownow cc ")
        self.kernel.run('System.setProperty("C", "by hand")').ok()
        layer("sandbox", S="changed")
        self.assertEqual(self.output(show), "processprocess overover by handc ")
        layer("context")
        self.assertEqual(self.output(show), "processprocess changedchanged -- ")

    def test_what_no_environment_holds_is_refused_and_nothing_runs(self) -> None:
        for env in ({"": "1"}, {"A=B": "1"}, {"A": "\0"}, {"A": 1}, ["A"]):
            outcome = self.kernel.run('System.out.print("ran")', env=env)
            self.assertEqual((outcome.error["kind"], outcome.error["ename"], outcome.text()), ("request", "InvalidEnvironment", ""), env)

    def test_the_folder_is_changed_for_files_and_children(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            odd = Path(folder, "a 'b' é")
            odd.mkdir()
            (odd / "file").write_text("inside")
            self.assertEqual(self.kernel.ask({"type": "chdir", "path": str(odd)})["status"], "ok")
            self.assertEqual(self.value('System.getProperty("user.dir")'), str(odd))
            self.assertEqual(self.value('new BufferedReader(new FileReader("file")).readLine()'), "inside")
            self.assertEqual(self.value('Files.readString(Path.of("file"))'), "inside")
            self.assertEqual(self.output('new ProcessBuilder("pwd").inheritIO().start().waitFor()'), f"{odd}\n")
            self.assertEqual(self.kernel.ask({"type": "chdir", "path": "/"})["status"], "ok")
        for path, name in (("/nonexistent", "NoSuchFileException"), ("/etc/passwd", "NotDirectoryException")):
            reply = self.kernel.ask({"type": "chdir", "path": path})
            self.assertEqual((reply["status"], reply["ename"]), ("error", name))

    def test_requests_that_make_no_sense_are_refused(self) -> None:
        for request in ({"type": "dance"}, {"type": "chdir"}, {"type": "environment", "layer": "x", "variables": {}}, {"type": "execute"}, {"type": "execute", "code": 5}):
            self.assertEqual(self.kernel.ask(request)["status"], "error", request)
        self.assertEqual(self.value("1"), "1")


class Ends(KernelCase):
    def setUp(self) -> None:
        type(self).kernel = self.start()

    def test_exit_ends_the_kernel_with_its_code_after_all_output(self) -> None:
        self.kernel.start('for (int i = 0; i < 1000; i++) System.out.println(i); System.exit(3);')
        self.kernel.wait_for_text("999\n")
        self.assertEqual(self.kernel.exit_status(), 3)

    def test_a_peer_that_hangs_up_ends_it_and_shutdown_too(self) -> None:
        self.kernel._file.close()
        self.kernel.connection.close()
        self.assertEqual(self.kernel.exit_status(), 0)
        kernel = self.start()
        self.assertEqual(kernel.ask({"type": "shutdown"})["status"], "ok")
        self.assertEqual(kernel.exit_status(), 0)

    def test_a_peer_that_does_not_read_stops_the_code(self) -> None:
        self.kernel.run("var written = new java.util.concurrent.atomic.AtomicLong();").ok()
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            flag = Path(folder, "flag")
            # Another thread of the code sees that the printing one has stopped.
            watcher = f'new Thread(() -> {{ try {{ long seen; do {{ seen = written.get(); Thread.sleep(500); }} while (seen == 0 || seen != written.get()); new File("{flag}").createNewFile(); }} catch (Exception e) {{ }} }}).start();'
            self.kernel.start(watcher + ' for (int i = 0; i < 3000; i++) { System.out.print("x".repeat(10_000)); written.incrementAndGet(); } written.get()')
            from kernel_client import wait_until

            wait_until(flag.exists, "the code waits for its reader")
            outcome = self.kernel.finish().ok()
            self.assertEqual((len(outcome.text()), outcome.value["text/plain"]), (30_000_000, "3000"))
