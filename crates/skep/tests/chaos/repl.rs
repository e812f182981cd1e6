//! `skep repl`, in a real terminal.

use std::fs;

use serde_json::Value;
use skep_testkit::wait_for;

use crate::installation::{INTERPRETER, Installation};
use crate::terminal::{Screen, TERMINAL_TIMEOUT};

#[test]
fn a_prompt_remembers_waits_for_whole_code_and_survives_ctrl_c() {
    let installation = Installation::start_with_interpreter();
    let home = tempfile::tempdir().unwrap();
    let arguments = ["repl", "--template", INTERPRETER];
    let mut command = installation.client_command(&arguments);
    command
        .env("XDG_STATE_HOME", home.path())
        .env("NO_COLOR", "1");
    let mut screen = Screen::open(&command);
    screen.expect("Python in sandbox i");
    screen.expect("py> ");
    screen.type_in("answer = 40 + 2\r");
    screen.type_in("print('the', answer)\r");
    screen.expect("the 42");
    // A block goes on until an empty line.
    screen.type_in("for i in range(2):\rprint('row', i * 5)\r\r");
    screen.expect("row 5");
    screen.type_in("1 / 0\r");
    screen.expect("ZeroDivisionError");
    screen.type_in("import time; print('sle' + 'eps'); time.sleep(600)\r");
    screen.expect("sleeps");
    screen.type_in("\u{3}");
    screen.expect("KeyboardInterrupt");
    screen.type_in("answer + 1\r");
    screen.expect("43");
    screen.type_in(":lang js\r");
    screen.expect("js> ");
    screen.type_in("[1, 2].map(x => x * 21)\r");
    screen.expect("[ 21, 42 ]");
    let notebook = home.path().join("work.ipynb");
    screen.type_in(&format!(":lang py\r:save {}\r", notebook.display()));
    screen.expect("saved /");
    let notebook: Value = serde_json::from_slice(&fs::read(notebook).unwrap()).unwrap();
    let first = notebook["cells"][0]["source"].to_string();
    assert!(first.contains("answer = 40 + 2"), "{notebook}");
    screen.type_in(":reset\r");
    screen.expect("started anew");
    screen.type_in("answer\r");
    screen.expect("NameError");
    screen.type_in("\u{4}");
    let ended = wait_for(TERMINAL_TIMEOUT, || {
        screen.program.try_wait().unwrap().ok_or("it goes on")
    });
    assert_eq!(ended.code(), Some(0));
    let history = home.path().join("skep/history-python");
    let history = fs::read_to_string(history).unwrap();
    assert!(history.contains("answer = 40 + 2"), "{history}");
    let list = ["sandbox", "list", "--json"];
    let listed = installation.client_command(&list).output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap().trim(), "[]");
}
