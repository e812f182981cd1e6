//! Tracebacks as a person likes to read them.

use skep_wire::interpreter::RaisedError;

const RED: &str = "\x1b[31m";
const BOLD_RED: &str = "\x1b[1;31m";
const CYAN: &str = "\x1b[36m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

/// The text of an error, with its last line feed.
pub(crate) fn rendered(error: &RaisedError, colour: bool) -> String {
    let mut lines: Vec<&str> = frames(&error.traceback).lines().collect();
    let summary = summary(error);
    // Some languages say it at the end of the traceback, some at its beginning, some nowhere.
    if !lines
        .iter()
        .any(|line| names(line, error) || says(line, error))
    {
        lines.extend(summary.lines());
    }
    let mut text = String::new();
    let mut before = None;
    for line in lines.iter().map(|line| plain(line, error)) {
        let begins_part = is_frame(line) || names(line, error);
        let follows = before.is_some_and(|before: &str| !before.is_empty() && !is_frame(before));
        if begins_part && follows && !line.starts_with(' ') {
            text.push('\n');
        }
        if before.is_none() && line.is_empty() {
            continue;
        }
        match style(line, error).filter(|_| colour) {
            Some(style) => text.extend([style, line, RESET]),
            None => text.push_str(line),
        }
        text.push('\n');
        before = Some(line);
    }
    text
}

/// Returns true if a line is what the error says, without its name: R calls all of them `ERROR`.
fn says(line: &str, error: &RaisedError) -> bool {
    let first = error.value.trim().lines().next().unwrap_or_default();
    !first.is_empty() && line.trim() == first.trim_end()
}

/// The exception in one line.
fn summary(error: &RaisedError) -> String {
    match (error.name.as_str(), error.value.as_str()) {
        // The platform's, and its traceback says it.
        ("ContextRestarting" | "OutOfMemory", _) if !error.traceback.is_empty() => String::new(),
        ("", value) => value.to_owned(),
        (name, "") => name.to_owned(),
        (name, value) => format!("{name}: {value}"),
    }
}

/// IPython's parts come without anything between them: a ruler, a title, and the first frame.
/// Neither ruler nor title says what the last line does not.
fn frames(traceback: &str) -> &str {
    const TITLE_END: &str = "Traceback (most recent call last)";
    let Some(rest) = traceback.strip_prefix("---") else {
        return traceback;
    };
    match rest.split_once(TITLE_END) {
        Some((_, frames)) => frames.trim_start_matches('\n'),
        None => rest.trim_start_matches('-'),
    }
}

/// A line without what says nothing.
fn plain<'a>(line: &'a str, error: &RaisedError) -> &'a str {
    let line = line.trim_end();
    match line.strip_suffix(':') {
        Some(name) if name == error.name => name,
        Some(_) | None => line,
    }
}

/// Returns true if a line is the one that names the exception.
fn names(line: &str, error: &RaisedError) -> bool {
    let after = line.strip_prefix(error.name.as_str());
    !error.name.is_empty() && after.is_some_and(|after| after.is_empty() || after.starts_with(':'))
}

fn is_frame(line: &str) -> bool {
    let starts = ["Cell In[", "File ", "  File ", "  Cell In["];
    starts.iter().any(|start| line.starts_with(start))
}

fn style(line: &str, error: &RaisedError) -> Option<&'static str> {
    let is_place = is_frame(line) || line.trim_start().starts_with("at ");
    if names(line, error) {
        Some(BOLD_RED)
    } else if line.trim_start().starts_with("-->") || line.starts_with("---") {
        Some(BOLD)
    } else if is_place {
        Some(CYAN)
    } else if line.trim_start().starts_with('^') {
        Some(RED)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(name: &str, value: &str, traceback: &str) -> RaisedError {
        RaisedError {
            name: name.to_owned(),
            value: value.to_owned(),
            traceback: traceback.to_owned(),
            kind: None,
            exit_status: None,
        }
    }

    #[test]
    fn the_ruler_and_the_title_of_ipython_are_left_out() {
        let traceback = format!(
            "{}NameError                                 Traceback (most recent call last)Cell In[4], line 1\n----> 1 xyz\n\nNameError: name 'xyz' is not defined",
            "-".repeat(75)
        );
        assert_eq!(
            rendered(
                &error("NameError", "name 'xyz' is not defined", &traceback),
                false
            ),
            "Cell In[4], line 1\n----> 1 xyz\n\nNameError: name 'xyz' is not defined\n"
        );
    }

    #[test]
    fn an_error_without_a_traceback_is_told_in_a_line() {
        let timeout = error("ExecutionTimeout", "it took longer than 1 s", "");
        assert_eq!(
            rendered(&timeout, false),
            "ExecutionTimeout: it took longer than 1 s\n"
        );
        let interrupt = error("KeyboardInterrupt", "", "");
        assert_eq!(rendered(&interrupt, false), "KeyboardInterrupt\n");
    }

    #[test]
    fn what_the_traceback_says_is_not_said_twice() {
        let node = "TypeError: x is not a function\n    at cell-1.js:1:1";
        let shown = rendered(&error("TypeError", "x is not a function", node), false);
        assert_eq!(shown, format!("{node}\n"));
    }

    #[test]
    fn an_error_of_r_is_told_once() {
        let traceback = "Error: boom\nTraceback:\n\n1. stop(\"boom\")";
        let shown = rendered(&error("ERROR", "Error: boom\n", traceback), false);
        assert_eq!(shown, format!("{traceback}\n"));
    }

    #[test]
    fn frames_stand_apart_from_each_other() {
        let glued = "File ~/a.py:6\n----> 6 f(0)\nFile ~/a.py:4, in f(x)\n----> 4 1 / x\nZeroDivisionError: division by zero";
        assert_eq!(
            rendered(
                &error("ZeroDivisionError", "division by zero", glued),
                false
            ),
            "File ~/a.py:6\n----> 6 f(0)\n\nFile ~/a.py:4, in f(x)\n----> 4 1 / x\n\nZeroDivisionError: division by zero\n"
        );
        let syntax = "  File ~/a.py:1\n    x = (\n        ^\nSyntaxError: '(' was never closed\n";
        let value = "'(' was never closed (a.py, line 1)";
        assert_eq!(
            rendered(&error("SyntaxError", value, syntax), false),
            "  File ~/a.py:1\n    x = (\n        ^\n\nSyntaxError: '(' was never closed\n"
        );
    }

    #[test]
    fn the_words_of_the_platform_need_no_name() {
        let died = error(
            "ContextRestarting",
            "Context was restarted",
            "The kernel ended.",
        );
        assert_eq!(rendered(&died, false), "The kernel ended.\n");
    }

    #[test]
    fn colours_mark_the_error_and_its_place() {
        let shown = rendered(&error("E", "v", "File ~/a.py:3\n----> 3 x\nE: v"), true);
        assert_eq!(
            shown,
            "\x1b[36mFile ~/a.py:3\x1b[0m\n\x1b[1m----> 3 x\x1b[0m\n\n\x1b[1;31mE: v\x1b[0m\n"
        );
    }
}
