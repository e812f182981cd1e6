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
    // The end of input is a key of the prompt; what a terminal makes of it before is lost.
    screen.expect_after("NameError", "py> ");
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

#[test]
fn a_prompt_goes_back_to_a_checkpoint_and_on_in_a_copy() {
    let installation = Installation::start_with_interpreter();
    let home = tempfile::tempdir().unwrap();
    let arguments = ["repl", "--template", INTERPRETER];
    let mut command = installation.client_command(&arguments);
    command
        .env("XDG_STATE_HOME", home.path())
        .env("NO_COLOR", "1");
    let mut screen = Screen::open(&command);
    screen.expect("py> ");
    // What is typed is shown, so what is waited for is put together by the code.
    screen.type_in("fruit = 'apples'\r:checkpoint\r");
    screen.expect("checkpoint 1; :back 1 goes back to it");
    screen.type_in("fruit = 'pears'\r:fork\r");
    screen.expect("goes back to the original");
    screen.type_in("print('copy', fruit)\rfruit = 'plums'\r");
    screen.expect("copy pears");
    screen.type_in(":back\r");
    screen.expect("there is no checkpoint");
    let shown = screen.shown();
    let origin = shown
        .split(":context ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    screen.type_in(&format!(":context {origin}\rprint('first', fruit)\r"));
    screen.expect("first pears");
    screen.type_in("import os; os._exit(3)\r");
    screen.expect("all variables are gone");
    screen.type_in(":back\r");
    screen.expect("back at checkpoint 1");
    screen.type_in("print('back to', fruit)\r");
    screen.expect("back to apples");
    screen.type_in(":lang js\r:checkpoint\r");
    // The end of input is a key of the prompt; what a terminal makes of it before is lost.
    screen.expect_after("cannot be forked", "js> ");
    screen.type_in("\u{4}");
    let ended = wait_for(TERMINAL_TIMEOUT, || {
        screen.program.try_wait().unwrap().ok_or("it goes on")
    });
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn code_asks_at_the_terminal_and_a_password_is_not_shown() {
    let installation = Installation::start_with_interpreter();
    let home = tempfile::tempdir().unwrap();
    let open = |arguments: &[&str]| {
        let mut command = installation.client_command(arguments);
        command
            .env("XDG_STATE_HOME", home.path())
            .env("NO_COLOR", "1");
        Screen::open(&command)
    };
    let mut prompt = open(&["repl", "--template", INTERPRETER]);
    prompt.expect("py> ");
    // What is typed is shown, so what is waited for is put together by the code.
    prompt.type_in("name = input('Your' + ' name? ')\r");
    prompt.expect("Your name? ");
    prompt.type_in("Ada\r");
    prompt.type_in("import getpass; word = getpass.getpass('The' + ' word? ')\r");
    prompt.expect("The word? ");
    prompt.type_in("hunter22\r");
    prompt.type_in("print('hello', name, len(word))\r");
    prompt.expect("hello Ada 8");
    assert!(!prompt.shown().contains("hunter22"), "{}", prompt.shown());
    prompt.type_in("input('The' + ' end? ')\r");
    prompt.expect("The end? ");
    prompt.type_in("\u{4}");
    prompt.expect("EOFError");
    prompt.type_in("input('The' + ' interrupt? ')\r");
    prompt.expect("The interrupt? ");
    prompt.type_in("\u{3}");
    prompt.expect("KeyboardInterrupt");
    prompt.type_in(":lang js\rprompt('Your' + ' age? ') + 1\r");
    prompt.expect("Your age? ");
    prompt.type_in("41\r");
    prompt.expect("411");
    prompt.type_in("\u{4}");

    let code = "print('you said ' + input('What' + ' now? '))";
    let mut run = open(&["run", "--template", INTERPRETER, "-c", code]);
    run.expect("What now? ");
    run.type_in("go\r");
    run.expect("you said go");
    let refused = installation
        .client_command(&["run", "--template", INTERPRETER, "-c", code])
        .output()
        .unwrap();
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(errors.contains("StdinNotImplementedError"), "{errors}");
}
