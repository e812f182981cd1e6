//! The languages, and how each says what a guarantee needs. A row has code, and where a language
//! differs from the others, what it does instead.

/// Expectations on one language.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) language: &'static str,
    /// A variable of the sandbox that keeps the language's own limit of memory low.
    pub(crate) limit: Option<(&'static str, &'static str)>,
    /// Prints the variables `V0` to `V9` on a line: `-`, or `x` and the bytes in hexadecimal.
    pub(crate) variables: &'static str,
    /// Prints the variable `V0`.
    pub(crate) secret: &'static str,
    pub(crate) folder: &'static str,
    pub(crate) keep: &'static str,
    pub(crate) kept: &'static str,
    /// Prints `go` and runs for ever.
    pub(crate) endless: &'static str,
    pub(crate) raise: &'static str,
    pub(crate) raised: Raised,
    pub(crate) syntax: &'static str,
    /// Ends the kernel by a signal.
    pub(crate) die: &'static str,
    /// Takes memory without end.
    pub(crate) devour: &'static str,
    /// Reaches what the language itself allows, if it has such a limit.
    pub(crate) exhaust: Option<Exhaust>,
    /// Prints 24,000,000 bytes and makes the file `FILE`.
    pub(crate) flood: &'static str,
    /// True if it is stopped at once when nobody reads, and not a thousand messages later:
    /// Jupyter's own kernels keep these in their memory.
    pub(crate) stops_at_once: bool,
    /// Waits until there is a file `FILE`, and prints `seen`.
    pub(crate) wait: &'static str,
    /// Makes the file `FILE`.
    pub(crate) make: &'static str,
}

/// Expected parts of an exception.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raised {
    pub(crate) name: &'static str,
    pub(crate) value: &'static str,
    pub(crate) traceback: &'static str,
}

/// Memory that the language itself refuses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exhaust {
    pub(crate) code: &'static str,
    /// True if the variables are still there afterwards.
    pub(crate) keeps_state: bool,
}

const PYTHON: Row = Row {
    language: "python",
    limit: None,
    variables: "import os\nvalues = [os.environ.get(f'V{i}') for i in range(10)]\nprint(*['-' if v is None else 'x' + v.encode().hex() for v in values])",
    secret: "import os\nprint(os.environ['V0'])",
    folder: "import os\nprint(os.getcwd())",
    keep: "kept = 'kept'",
    kept: "print(kept)",
    endless: "print('go', flush=True)\nwhile True: pass",
    raise: "1/0",
    raised: Raised {
        name: "ZeroDivisionError",
        value: "division by zero",
        traceback: "1/0",
    },
    syntax: "(",
    die: "import os\nos.kill(os.getpid(), 9)",
    devour: "all = []\nwhile True: all.append(b'x' * (16 << 20))",
    exhaust: Some(Exhaust {
        code: "bytearray(1 << 60)",
        keeps_state: true,
    }),
    flood: "for i in range(240): print(('x' * 99 + '\\n') * 1000, end='')\nopen('FILE', 'w').close()",
    stops_at_once: true,
    wait: "import os, time\nwhile not os.path.exists('FILE'): time.sleep(0.01)\nprint('seen')",
    make: "open('FILE', 'w').close()",
};

const JAVASCRIPT: Row = Row {
    language: "javascript",
    limit: Some(("NODE_OPTIONS", "--max-old-space-size=150")),
    variables: "console.log(Array.from({ length: 10 }, (_, i) => process.env['V' + i]).map((v) => v === undefined ? '-' : 'x' + Buffer.from(v).toString('hex')).join(' '))",
    secret: "console.log(process.env.V0)",
    folder: "console.log(process.cwd())",
    keep: "let kept = 'kept'",
    kept: "console.log(kept)",
    endless: "console.log('go'); for (;;);",
    raise: "throw new TypeError('boom')",
    raised: Raised {
        name: "TypeError",
        value: "boom",
        traceback: "boom",
    },
    syntax: "let x = ;",
    die: "process.kill(process.pid, 'SIGKILL')",
    devour: "const all = []; for (;;) all.push(Buffer.alloc(16 << 20, 1))",
    exhaust: Some(Exhaust {
        code: "const all = []; for (;;) all.push(new Array(100000).fill(0).map((_, i) => ({ i })))",
        keeps_state: false,
    }),
    flood: "for (let i = 0; i < 240; i++) process.stdout.write(('x'.repeat(99) + '\\n').repeat(1000)); require('fs').writeFileSync('FILE', '')",
    stops_at_once: true,
    wait: "while (!require('fs').existsSync('FILE')); console.log('seen')",
    make: "require('fs').writeFileSync('FILE', '')",
};

const BASH: Row = Row {
    language: "bash",
    limit: None,
    variables: "for ((i = 0; i < 10; i++)); do n=V$i; if [[ -v $n ]]; then printf x; printf %s \"${!n}\" | od -An -v -tx1 | tr -d ' \\n'; else printf -- -; fi; printf ' '; done; echo",
    secret: "echo \"$V0\"",
    folder: "pwd",
    keep: "kept=kept",
    kept: "echo \"${kept-lost}\"",
    endless: "echo go; while :; do :; done",
    raise: "(exit 7)",
    // A command that fails is no exception, and there is no stack to tell of.
    raised: Raised {
        name: "",
        value: "7",
        traceback: "",
    },
    syntax: "echo 'unfinished",
    die: "kill -9 $$",
    devour: "all=$(head -c 3000000000 /dev/zero | tr '\\0' x)",
    // A shell has no limit of its own.
    exhaust: None,
    flood: "yes \"$(printf 'x%.0s' {1..99})\" | head -n 240000; touch 'FILE'",
    stops_at_once: true,
    wait: "until [ -e 'FILE' ]; do sleep 0.01; done; echo seen",
    make: "touch 'FILE'",
};

const JAVA: Row = Row {
    language: "java",
    limit: Some(("JDK_JAVA_OPTIONS", "-Xmx200m")),
    // By contract variables are properties; they are in the environment as well.
    variables: "for (int i = 0; i < 10; i++) { String v = System.getProperty(\"V\" + i); if (!java.util.Objects.equals(v, System.getenv(\"V\" + i))) System.out.print(\"differs \"); System.out.print(v == null ? \"- \" : \"x\" + java.util.HexFormat.of().formatHex(v.getBytes(java.nio.charset.StandardCharsets.UTF_8)) + \" \"); }",
    secret: "System.out.println(System.getProperty(\"V0\"));",
    folder: "System.out.println(System.getProperty(\"user.dir\"));",
    keep: "String kept = \"kept\";",
    kept: "System.out.println(kept);",
    endless: "System.out.println(\"go\"); while (true) { }",
    raise: "throw new IllegalStateException(\"boom\");",
    raised: Raised {
        name: "IllegalStateException",
        value: "boom",
        traceback: "boom",
    },
    syntax: "int x = ;",
    die: "new ProcessBuilder(\"kill\", \"-9\", \"\" + ProcessHandle.current().pid()).start().waitFor();",
    devour: "var all = new java.util.ArrayList<byte[]>(); for (;;) all.add(new byte[16 << 20]);",
    exhaust: Some(Exhaust {
        code: "var all = new java.util.ArrayList<byte[]>(); for (;;) all.add(new byte[1 << 20]);",
        keeps_state: true,
    }),
    flood: "for (int i = 0; i < 240; i++) System.out.print((\"x\".repeat(99) + \"\\n\").repeat(1000)); java.nio.file.Files.createFile(java.nio.file.Path.of(\"FILE\"));",
    stops_at_once: true,
    wait: "while (!java.nio.file.Files.exists(java.nio.file.Path.of(\"FILE\"))) Thread.sleep(10); System.out.println(\"seen\");",
    make: "java.nio.file.Files.createFile(java.nio.file.Path.of(\"FILE\"));",
};

const R: Row = Row {
    language: "r",
    limit: None,
    variables: "cat(vapply(0:9, function(i) { v <- Sys.getenv(paste0('V', i), unset = NA); if (is.na(v)) '-' else paste(c('x', format(charToRaw(v))), collapse = '') }, ''), '\\n')",
    secret: "cat(Sys.getenv('V0'), '\\n')",
    folder: "cat(getwd(), '\\n')",
    keep: "kept <- 'kept'",
    kept: "cat(kept, '\\n')",
    endless: "cat('go\\n')\nrepeat {}",
    raise: "f <- function() stop('boom')\nf()",
    raised: Raised {
        name: "ERROR",
        value: "Error in f(): boom",
        traceback: "stop(\"boom\")",
    },
    syntax: "x y",
    die: "tools::pskill(Sys.getpid(), 9)",
    devour: "all <- list()\nrepeat all[[length(all) + 1L]] <- rep(1, 2e6)",
    exhaust: Some(Exhaust {
        code: "numeric(1e12)",
        keeps_state: true,
    }),
    flood: "for (i in 1:240) cat(strrep(paste0(strrep('x', 99), '\\n'), 1000))\ninvisible(file.create('FILE'))",
    stops_at_once: false,
    wait: "while (!file.exists('FILE')) Sys.sleep(0.01)\ncat('seen\\n')",
    make: "invisible(file.create('FILE'))",
};

pub(crate) const ROWS: [Row; 7] = [
    PYTHON,
    Row {
        language: "ipykernel",
        stops_at_once: false,
        ..PYTHON
    },
    JAVASCRIPT,
    Row {
        language: "typescript",
        keep: "let kept: string = 'kept'",
        syntax: "let x: = 5",
        ..JAVASCRIPT
    },
    BASH,
    JAVA,
    R,
];
