//! The page that lists every command.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory as _};

use super::Cli;

const HEAD: &str = "\
# Commands

Every command of `skep` with its arguments; `skep COMMAND --help` prints the same. [The command line](cli.md) is a page
that says what they mean together, and there is one of the [configuration](configuration.md) and the [environment](environment.md).
A test of the executable compares this page with the command line, and `SKEP_BLESS=1 cargo test -p skep page` writes it.

Data goes to standard output, everything else to standard error. Exit codes are 0, 1 for a mistake in what was asked, 2 for a failure, 141
if whoever read the output has gone; `run` and `sandbox exec` exit with the code of what they ran.

";

fn page(mut root: Command) -> String {
    root.build();
    let global: Vec<_> = shown(&root, &[]);
    let mut page = format!("{HEAD}## Options of every command\n\n{}", table(&global));
    for command in visible(&root) {
        section(&mut page, command, 2, &global);
    }
    page
}

/// Appends what is to be said about a command; `inherited` is what its parents have said.
fn section(page: &mut String, command: &Command, level: usize, inherited: &[&Arg]) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command
        .get_long_about()
        .or(command.get_about())
        .cloned()
        .unwrap_or_default();
    write!(page, "\n{} `{name}`\n\n{about}\n", "#".repeat(level)).unwrap();
    if !command.is_subcommand_required_set() {
        let rendered = command.clone().render_usage().to_string();
        let usage = rendered.trim_start_matches("Usage: ");
        write!(page, "\n```text\n{usage}\n```\n").unwrap();
    }
    let arguments = shown(command, inherited);
    if !arguments.is_empty() {
        write!(page, "\n{}", table(&arguments)).unwrap();
    }
    let global = arguments.iter().filter(|argument| argument.is_global_set());
    let inherited: Vec<_> = inherited.iter().chain(global).copied().collect();
    for command in visible(command) {
        section(page, command, level + 1, &inherited);
    }
}

/// The arguments of a command that people may use, those without a name first.
fn shown<'a>(command: &'a Command, inherited: &[&Arg]) -> Vec<&'a Arg> {
    let is_new = |argument: &&Arg| {
        !argument.is_hide_set()
            && !["help", "version"].contains(&argument.get_id().as_str())
            && !inherited
                .iter()
                .any(|known| known.get_id() == argument.get_id())
    };
    let mut arguments: Vec<_> = command.get_arguments().filter(is_new).collect();
    arguments.sort_by_key(|argument| !argument.is_positional());
    arguments
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let all = command.get_subcommands();
    all.filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn table(arguments: &[&Arg]) -> String {
    let rows = arguments
        .iter()
        .map(|argument| format!("| {} | {} |\n", spelling(argument), meaning(argument)));
    format!("| | |\n|---|---|\n{}", rows.collect::<String>())
}

/// The argument as it is typed.
fn spelling(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("`-{short}`"));
    let values: String = argument
        .get_value_names()
        .filter(|_| argument.get_action().takes_values())
        .unwrap_or_default()
        .iter()
        .map(|name| format!(" {name}"))
        .collect();
    let long = match argument.get_long() {
        Some(long) => format!("`--{long}{values}`"),
        None => format!("`{}`", values.trim_start()),
    };
    let spellings: Vec<_> = short.into_iter().chain([long]).collect();
    spellings.join(", ")
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let mut text = help.unwrap_or_default().to_string().replace('\n', " ");
    let values: Vec<_> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if argument.get_action().takes_values() && !values.is_empty() {
        write!(text, ": {}", values.join(", ")).unwrap();
    }
    let defaults: Vec<_> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if argument.get_action().takes_values() && !defaults.is_empty() {
        write!(text, " [default: {}]", defaults.join(", ")).unwrap();
    }
    if let Some(variable) = argument.get_env() {
        write!(text, " [env: `{}`]", variable.to_string_lossy()).unwrap();
    }
    text.replace('|', "\\|")
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test is told by a variable to write the page"
)]
fn the_page_tells_every_command() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/commands.md");
    let page = page(Cli::command());
    if std::env::var_os("SKEP_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap();
    assert!(there == page, "`SKEP_BLESS=1` writes {}", path.display());
}

#[test]
fn what_is_hidden_is_not_on_the_page_and_nothing_else_is_missing() {
    let hidden = Arg::new("inner").long("inner").hide(true);
    let count = Arg::new("count")
        .long("count")
        .short('n')
        .value_name("N")
        .default_value("3")
        .help("How many | at most");
    let file = Arg::new("file").value_name("FILE").required(true);
    let list = Command::new("list")
        .about("List them")
        .args([count, file, hidden]);
    let secret = Command::new("agent").about("Not for people").hide(true);
    let root = Command::new("skep").subcommands([Command::new("thing").subcommand(list), secret]);
    let page = page(root);
    let expected = "\
### `skep thing list`

List them

```text
skep thing list [OPTIONS] <FILE>
```

| | |
|---|---|
| `FILE` |  |
| `-n`, `--count N` | How many \\| at most [default: 3] |
";
    assert!(page.ends_with(expected), "{page}");
    assert!(!page.contains("agent") && !page.contains("inner"), "{page}");
}
