//! The pieces as the languages themselves understand them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

type Variables = BTreeMap<String, String>;

/// An interpreter that runs one piece after another.
struct Interpreter {
    encoder: Encoder,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// State of the kernel after a piece of code.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    values: Vec<Option<String>>,
    directory: String,
}

impl Interpreter {
    /// The interpreters that this host has. Where there is no R, its pieces are tested in a
    /// sandbox whose template has it.
    fn all() -> Vec<Self> {
        let python = ["python3", "-c", include_str!("tests/read_and_run.py")];
        let r = ["Rscript", "-e", include_str!("tests/read_and_run.R")];
        let has_r = Command::new("Rscript").arg("--version").output().is_ok();
        let mut all = vec![Self::start(Encoder::Python, &python)];
        all.extend(has_r.then(|| Self::start(Encoder::R, &r)));
        all
    }

    fn start(encoder: Encoder, command: &[&str]) -> Self {
        let mut process = Command::new(command[0])
            .args(&command[1..])
            .env("BEFORE_SKEP", "before")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            encoder,
            input: process.stdin.take().unwrap(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    /// Runs a piece, which must leave no name behind.
    fn run(&mut self, piece: &str, names: &[&str]) -> Seen {
        let word = |text: &&str| {
            let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            format!("x{digits}")
        };
        let words: Vec<String> = [piece].iter().chain(names).map(word).collect();
        writeln!(self.input, "{}", words.join(" ")).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let mut values: Vec<Option<String>> = line.split_whitespace().map(unhex).collect();
        let directory = values.pop().flatten().unwrap_or_else(|| panic!("{piece}"));
        Seen { values, directory }
    }

    fn values(&mut self, piece: &str, names: &[&str]) -> Vec<Option<String>> {
        self.run(piece, names).values
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn unhex(word: &str) -> Option<String> {
    let digits = word.strip_prefix('x')?.as_bytes();
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16).unwrap()).unwrap();
    let bytes = digits
        .chunks(2)
        .map(|pair| digit(pair[0]) * 16 + digit(pair[1]));
    Some(String::from_utf8(bytes.collect()).unwrap())
}

fn variables(entries: &[(&str, &str)]) -> Variables {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    entries.iter().map(owned).collect()
}

fn some(values: [Option<&str>; 2]) -> Vec<Option<String>> {
    values.map(|value| value.map(str::to_owned)).to_vec()
}

#[test]
fn an_interrupted_restoration_is_made_up_for_by_the_next() {
    for mut interpreter in Interpreter::all() {
        let encoder = interpreter.encoder;
        let names = ["BEFORE_SKEP", "NEW_SKEP"];
        let both = variables(&[("BEFORE_SKEP", "1"), ("NEW_SKEP", "1")]);
        for (piece, expected) in [
            (encoder.set_variables(&both), [Some("1"), Some("1")]),
            // Nobody restored these, and yet they are known.
            (
                encoder.set_variables(&variables(&[("BEFORE_SKEP", "2")])),
                [Some("2"), Some("1")],
            ),
            (encoder.restore_variables(), [Some("before"), None]),
            (encoder.restore_variables(), [Some("before"), None]),
        ] {
            assert_eq!(
                interpreter.values(&piece, &names),
                some(expected),
                "{encoder:?}"
            );
        }
    }
}

#[test]
fn kept_variables_are_replaced_and_what_the_user_assigned_stays() {
    for mut interpreter in Interpreter::all() {
        let encoder = interpreter.encoder;
        let names = ["BEFORE_SKEP", "NEW_SKEP"];
        let assignment = match encoder {
            Encoder::Python => "__import__('os').environ['NEW_SKEP'] = 'mine'",
            Encoder::R => "Sys.setenv(NEW_SKEP = 'mine')",
        };
        let keep = |entries: &[(&str, &str)]| encoder.keep_variables(&variables(entries));
        for (piece, expected) in [
            (
                keep(&[("BEFORE_SKEP", "1"), ("NEW_SKEP", "1")]),
                [Some("1"), Some("1")],
            ),
            (assignment.to_owned(), [Some("1"), Some("mine")]),
            (keep(&[("NEW_SKEP", "1")]), [Some("before"), Some("mine")]),
            (keep(&[("NEW_SKEP", "2")]), [Some("before"), Some("2")]),
            (keep(&[]), [Some("before"), None]),
        ] {
            assert_eq!(
                interpreter.values(&piece, &names),
                some(expected),
                "{encoder:?}"
            );
        }
    }
}

/// Legal names: everything but nothing, `=` and NUL.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Z][A-Z0-9_]{0,8}",
        "[^\0=]{1,12}",
        "['\"\\\\ $(){};#%`\n]{1,8}"
    ]
    .prop_map(|name| name + "_SKEP")
}

/// Legal values, many of them such as would end a literal or begin something in it.
fn value() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        "[^\0]{0,12}",
        "['\"\\\\\n\r\t{}]{1,6}",
        prop::sample::select(vec![
            "$(touch /tmp/x)",
            "`id`",
            "${HOME}",
            "%s%n",
            "{0}",
            "# comment",
            "r\"(raw)\"",
            ")\"",
            "r\"---(",
            "\\u0041",
            "\\x41",
            "'''",
            "\"\"\"",
            "😀",
            "\u{2028}",
            "\u{feff}",
            "\u{1b}[0m",
            "NA",
            "NULL",
        ])
        .prop_map(str::to_owned),
    ];
    vec(pieces, 0..5).prop_map(|pieces| pieces.concat())
}

#[test]
fn every_value_arrives_is_gone_afterwards_and_runs_nothing() {
    for mut interpreter in Interpreter::all() {
        let encoder = interpreter.encoder;
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
        let interpreter = std::cell::RefCell::new(&mut interpreter);
        let layers = [
            btree_map(name(), value(), 0..4),
            btree_map(name(), value(), 1..4),
        ];
        let checked = runner.run(&layers, |[kept, set]| {
            let mut interpreter = interpreter.borrow_mut();
            let names: Vec<&str> = kept.keys().chain(set.keys()).map(String::as_str).collect();
            let seen = |layers: &[&Variables]| -> Vec<Option<String>> {
                let find = |name: &&str| layers.iter().find_map(|layer| layer.get(*name).cloned());
                names.iter().map(find).collect()
            };
            for (piece, expected) in [
                (encoder.keep_variables(&kept), seen(&[&kept])),
                (encoder.set_variables(&set), seen(&[&set, &kept])),
                (encoder.restore_variables(), seen(&[&kept])),
                (encoder.keep_variables(&Variables::new()), seen(&[])),
            ] {
                prop_assert_eq!(interpreter.values(&piece, &names), expected);
            }
            Ok(())
        });
        assert_eq!(checked, Ok(()), "{encoder:?}");
    }
}

#[test]
fn a_very_long_value_arrives() {
    for mut interpreter in Interpreter::all() {
        let encoder = interpreter.encoder;
        let long = "'\"\\😀".repeat(20_000);
        let piece = encoder.set_variables(&variables(&[("LONG_SKEP", &long)]));
        assert!(
            interpreter.values(&piece, &["LONG_SKEP"]) == [Some(long)],
            "{encoder:?}"
        );
    }
}

#[test]
fn every_path_arrives() {
    for mut interpreter in Interpreter::all() {
        let encoder = interpreter.encoder;
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(50));
        let interpreter = std::cell::RefCell::new(&mut interpreter);
        let names = prop_oneof!["[^\0/]{1,60}", "~[a-z]{0,4}", "['\"\\\\\n$()]{1,9}"];
        let checked = runner.run(&names, |name| {
            prop_assume!(name.len() <= 255 && name != "." && name != "..");
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(&name);
            std::fs::create_dir(&path).unwrap();
            let path = path.to_str().unwrap();
            let parent = folder.path().to_str().unwrap();
            let mut interpreter = interpreter.borrow_mut();
            let seen = interpreter.run(&encoder.change_directory(path), &[]);
            prop_assert_eq!(seen.directory, path);
            interpreter.run(&encoder.change_directory(parent), &[]);
            let seen = interpreter.run(&encoder.change_directory(&name), &[]);
            prop_assert_eq!(seen.directory, path);
            interpreter.run(&encoder.change_directory("/"), &[]);
            Ok(())
        });
        assert_eq!(checked, Ok(()), "{encoder:?}");
    }
}

/// The text of a piece without the literals in which values are.
fn without_literals(encoder: Encoder, piece: &str) -> String {
    let (quote, is_digit): (char, fn(char) -> bool) = match encoder {
        Encoder::Python => ('\'', |c| c.is_ascii_alphanumeric() || "+/=".contains(c)),
        Encoder::R => ('"', |c| c.is_ascii_hexdigit()),
    };
    let mut parts = piece.split(quote);
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        rest.push(quote);
        if !part.chars().all(is_digit) {
            rest += part;
        }
    }
    rest
}

proptest! {
    #[test]
    fn values_change_nothing_but_literals(
        set in btree_map(name(), value(), 1..2),
        other in btree_map(name(), value(), 1..2),
    ) {
        for encoder in [Encoder::Python, Encoder::R] {
            for piece in [Encoder::set_variables, Encoder::keep_variables] {
                let text = |variables| without_literals(encoder, &piece(encoder, variables));
                prop_assert_eq!(text(&set), text(&other));
            }
        }
    }
}
