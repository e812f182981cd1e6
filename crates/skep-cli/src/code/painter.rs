//! Rendering of an execution on standard output and error.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use skep_wire::interpreter::{AnswerLine, RaisedError, RawJson, ResultLine};

use super::pictures::{inline, is_picture, is_placeholder};
use super::{Language, Pictures, Screen, traceback};
use crate::CliError;

/// Selection of results shown beside the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    /// The value of the last expression too, as a prompt does.
    Values,
    /// Only what it displays, as a program does.
    Displays,
}

/// Shows lines of an answer.
pub(crate) struct Painter<Output, Errors> {
    output: Output,
    errors: Errors,
    screen: Screen,
    pictures: Pictures,
    is_json: bool,
    /// True if the terminal's cursor is not at the start of a line.
    is_within_line: bool,
    /// The interpreter's name of the code, and the user's own, which replaces it in tracebacks.
    renaming: Option<(String, String)>,
    has_hinted: bool,
}

/// A painter on standard output and error.
pub(crate) type ScreenPainter = Painter<io::Stdout, io::Stderr>;

/// A line for machines that is not the interpreter's.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum OwnLine<'a> {
    /// The sandbox in which the code runs.
    Sandbox { id: &'a str },
    /// A file of a result was kept.
    Saved { path: String },
    /// The end, with the exit code.
    Exit { code: u8 },
}

impl ScreenPainter {
    /// A painter on standard output and error.
    pub(crate) fn new(screen: Screen, pictures: Pictures, is_json: bool) -> Self {
        Self::on(io::stdout(), io::stderr(), screen, pictures, is_json)
    }
}

impl<Output: Write, Errors: Write> Painter<Output, Errors> {
    fn on(
        output: Output,
        errors: Errors,
        screen: Screen,
        pictures: Pictures,
        is_json: bool,
    ) -> Self {
        Self {
            output,
            errors,
            screen,
            pictures,
            is_json,
            is_within_line: false,
            renaming: None,
            has_hinted: false,
        }
    }

    /// Keeps pictures elsewhere from now on.
    pub(crate) fn keep_pictures(&mut self, pictures: Pictures) {
        self.pictures = pictures;
    }

    /// Sets the name by which tracebacks call the code, instead of the interpreter's name of a
    /// cell.
    pub(crate) fn rename(&mut self, cell: String, name: String) {
        self.renaming = Some((cell, name));
    }

    /// Shows one line. Errors are shown by [`Self::error`], which knows what they mean.
    ///
    /// # Errors
    ///
    /// If nobody reads it any more, or a picture cannot be kept.
    pub(crate) fn line(&mut self, line: &AnswerLine, shows: Shows) -> Result<(), CliError> {
        if self.is_json {
            self.json(line)?;
            if let AnswerLine::Result(result) = line {
                for path in self.pictures.keep(result)? {
                    let path = path.display().to_string();
                    self.json(&OwnLine::Saved { path })?;
                }
            }
            return Ok(());
        }
        match line {
            AnswerLine::Stdout { text, .. } => self.print(text),
            AnswerLine::Stderr { text, .. } => self.print_error(&without_advice(text)),
            AnswerLine::Result(result) if result.is_main_result && shows == Shows::Displays => {
                // A program does not print the value of its last line, but a plot is a plot.
                if is_picture(result) {
                    self.picture(result)?;
                }
                Ok(())
            }
            AnswerLine::Result(result) => self.result(result),
            AnswerLine::ContextRestarted { reason } => self.note(&format!(
                "the interpreter was started anew ({}); earlier variables are gone",
                reason.replace('_', " ")
            )),
            AnswerLine::TooLarge { bytes } => self.note(&format!(
                "an output of {bytes} bytes is too large and was left out"
            )),
            AnswerLine::OutputLost { bytes } => {
                self.note(&format!("{bytes} bytes of output were lost"))
            }
            AnswerLine::NumberOfExecutions { .. }
            | AnswerLine::Error(_)
            // Only who asks for Jupyter's form gets it.
            | AnswerLine::Output { .. }
            // Shown by whoever can answer it.
            | AnswerLine::InputRequest { .. }
            | AnswerLine::Receipt { .. }
            | AnswerLine::Keepalive
            | AnswerLine::EndOfExecution
            | AnswerLine::Unknown => Ok(()),
        }
    }

    /// A line of ours for machines; nothing for people.
    pub(crate) fn own(&mut self, line: &OwnLine<'_>) -> Result<(), CliError> {
        if self.is_json {
            self.json(line)
        } else {
            Ok(())
        }
    }

    /// Shows an error of the code on standard error.
    pub(crate) fn error(&mut self, error: &RaisedError) -> Result<(), CliError> {
        if self.is_json {
            return Ok(());
        }
        let mut text = traceback::rendered(error, self.screen.colours_errors);
        if let Some((cell, name)) = &self.renaming {
            text = text.replace(cell.as_str(), name);
        }
        self.begin_line()?;
        self.print_error(&text)
    }

    /// Shows text that is not the code's, on standard output.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.print(text)
    }

    /// Prints the message of a program that leaves with one, on standard error.
    pub(crate) fn exit_message(&mut self, words: &str) -> Result<(), CliError> {
        if self.is_json {
            return Ok(());
        }
        self.begin_line()?;
        self.print_error(&format!("{words}\n"))
    }

    /// Says something that is not the code's, on standard error.
    pub(crate) fn note(&mut self, note: &str) -> Result<(), CliError> {
        self.begin_line()?;
        let text = if self.screen.colours_errors {
            format!("\x1b[2mskep: {note}\x1b[0m\n")
        } else {
            format!("skep: {note}\n")
        };
        self.print_error(&text)
    }

    /// Ends a line that the code left open on a terminal, where something else follows.
    pub(crate) fn begin_line(&mut self) -> Result<(), CliError> {
        if self.is_within_line && self.screen.is_terminal {
            self.print("\n")?;
        }
        Ok(())
    }

    /// Notes that something else has left the cursor at the start of a line, or within one.
    pub(crate) fn moved(&mut self, is_within_line: bool) {
        self.is_within_line = is_within_line;
    }

    fn print(&mut self, text: &str) -> Result<(), CliError> {
        self.is_within_line = !text.ends_with('\n') && (self.is_within_line || !text.is_empty());
        write(&mut self.output, text)
    }

    fn print_error(&mut self, text: &str) -> Result<(), CliError> {
        self.is_within_line = !text.ends_with('\n') && (self.is_within_line || !text.is_empty());
        write(&mut self.errors, text)
    }

    fn json(&mut self, line: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string(line).map_err(CliError::failure)?;
        write(&mut self.output, &(text + "\n"))
    }

    fn result(&mut self, result: &ResultLine) -> Result<(), CliError> {
        self.begin_line()?;
        if is_picture(result) {
            return self.picture(result);
        }
        for path in self.pictures.keep(result)? {
            self.note(&format!("saved {}", path.display()))?;
        }
        match readable(result) {
            Some(text) => self.print(&(text.trim_end_matches('\n').to_owned() + "\n")),
            None if self.pictures.keeps() => Ok(()),
            None => {
                let kinds = kinds(result);
                self.hint(&format!("a result of {kinds} is not shown"))
            }
        }
    }

    fn picture(&mut self, result: &ResultLine) -> Result<(), CliError> {
        self.begin_line()?;
        let shown = self
            .screen
            .pictures
            .and_then(|protocol| inline(result, protocol));
        if let Some(shown) = &shown {
            self.print(shown)?;
        }
        let saved = self.pictures.keep(result)?;
        for path in &saved {
            self.note(&format!("saved {}", path.display()))?;
        }
        if saved.is_empty() && shown.is_none() {
            self.hint(&format!("a picture ({}) is not shown", kinds(result)))?;
        }
        Ok(())
    }

    fn hint(&mut self, what: &str) -> Result<(), CliError> {
        if self.has_hinted {
            return self.note(what);
        }
        self.has_hinted = true;
        self.note(&format!("{what}; `--save-dir DIR` keeps it"))
    }
}

/// IPython advises whoever calls `sys.exit` to leave its prompt otherwise. There is none.
fn without_advice(text: &str) -> Cow<'_, str> {
    const ADVICE: &str = "To exit: use 'exit', 'quit', or Ctrl-D.";
    if !text.contains(ADVICE) {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive('\n');
    Cow::Owned(lines.filter(|line| !line.contains(ADVICE)).collect())
}

/// Text that a terminal shows for a result that is no picture.
fn readable(result: &ResultLine) -> Option<String> {
    let text = result.text.as_deref();
    let pretty = |json: &RawJson| {
        let value = json.read::<Value>().ok();
        value.map_or_else(
            || Some(json.get().to_owned()),
            |value| serde_json::to_string_pretty(&value).ok(),
        )
    };
    let richer = result
        .markdown
        .clone()
        .or_else(|| result.latex.clone())
        .or_else(|| result.json.as_ref().and_then(pretty));
    match text {
        Some(text) if richer.is_none() || !is_placeholder(text) => {
            let only_says_html = result.html.is_some() && is_placeholder(text);
            (!only_says_html).then(|| text.to_owned())
        }
        Some(_) | None => richer.or_else(|| result.javascript.clone()),
    }
}

/// The representations of a result, for people.
fn kinds(result: &ResultLine) -> String {
    let bundle = result.clone().into_bundle(0);
    let told = |mime: &&String| !mime.starts_with("e2b/") && *mime != "text/plain";
    let kinds: Vec<_> = bundle.keys().filter(told).map(String::as_str).collect();
    kinds.join(", ")
}

fn write(target: &mut impl Write, text: &str) -> Result<(), CliError> {
    target
        .write_all(text.as_bytes())
        .and_then(|()| target.flush())
        .map_err(CliError::output)
}

/// Name of a cell in interpreters that count them by file.
pub(crate) fn cell_name(language: &Language, count: u64) -> Option<String> {
    match language.name() {
        "javascript" => Some(format!("cell-{count}.js")),
        "typescript" => Some(format!("cell-{count}.ts")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn painted(screen: Screen, is_json: bool, lines: &[Value], shows: Shows) -> (String, String) {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let pictures = Pictures::new(None);
        let mut painter = Painter::on(&mut output, &mut errors, screen, pictures, is_json);
        for line in lines {
            let line: AnswerLine = serde_json::from_value(line.clone()).unwrap();
            painter.line(&line, shows).unwrap();
        }
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output), text(errors))
    }

    fn piped(lines: &[Value], shows: Shows) -> (String, String) {
        painted(Screen::default(), false, lines, shows)
    }

    #[test]
    fn a_value_is_printed_at_a_prompt_and_not_for_a_program() {
        let lines = [
            json!({"type": "stdout", "text": "a\n"}),
            json!({"type": "result", "text": "42", "extra": {}, "is_main_result": true}),
        ];
        assert_eq!(piped(&lines, Shows::Values).0, "a\n42\n");
        assert_eq!(piped(&lines, Shows::Displays).0, "a\n");
    }

    #[test]
    fn a_result_begins_a_line_on_a_terminal_and_changes_nothing_in_a_pipe() {
        let lines = [
            json!({"type": "stdout", "text": "a"}),
            json!({"type": "result", "text": "42", "is_main_result": true}),
        ];
        let terminal = Screen {
            is_terminal: true,
            ..Screen::default()
        };
        assert_eq!(painted(terminal, false, &lines, Shows::Values).0, "a\n42\n");
        assert_eq!(piped(&lines, Shows::Values).0, "a42\n");
    }

    #[test]
    fn the_richest_text_is_shown_where_plain_text_says_nothing() {
        let markdown = json!({"type": "result", "text": "<IPython.core.display.Markdown object>", "markdown": "# Hi"});
        assert_eq!(piped(&[markdown], Shows::Values).0, "# Hi\n");
        let value = json!({"type": "result", "text": "<IPython.core.display.JSON object>", "json": {"a": [1]}});
        let pretty = "{\n  \"a\": [\n    1\n  ]\n}\n";
        assert_eq!(piped(&[value], Shows::Values).0, pretty);
        let table = json!({"type": "result", "text": "   a\n0  1", "html": "<table/>"});
        assert_eq!(piped(&[table], Shows::Values).0, "   a\n0  1\n");
        let object = json!({"type": "result", "text": "<object object at 0x1>"});
        assert_eq!(
            piped(&[object], Shows::Values).0,
            "<object object at 0x1>\n"
        );
    }

    #[test]
    fn what_cannot_be_shown_is_told_with_how_to_get_it() {
        let plot = json!({"type": "result", "text": "<Figure>", "png": "aGk=", "chart": {}});
        let (output, errors) = piped(&[plot.clone(), plot], Shows::Displays);
        assert_eq!(output, "");
        assert_eq!(
            errors,
            "skep: a picture (image/png) is not shown; `--save-dir DIR` keeps it\nskep: a picture (image/png) is not shown\n"
        );
    }

    #[test]
    fn the_advice_of_ipython_on_leaving_is_left_out() {
        let text = "before\n/opt/x.py:1: UserWarning: To exit: use 'exit', 'quit', or Ctrl-D.\n  warn(\"To exit: use 'exit', 'quit', or Ctrl-D.\", stacklevel=1)\n";
        let line = json!({"type": "stderr", "text": text});
        assert_eq!(piped(&[line], Shows::Values).1, "before\n");
    }

    #[test]
    fn machines_get_every_line_as_it_came() {
        let lines = [
            json!({"type": "stdout", "text": "a", "timestamp": "t"}),
            json!({"type": "result", "text": "42", "extra": {}, "is_main_result": true}),
            json!({"type": "end_of_execution"}),
        ];
        let (output, errors) = painted(Screen::default(), true, &lines, Shows::Displays);
        let read: Vec<Value> = output
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(read, lines);
        assert_eq!(errors, "");
    }
}
