//! The page that people read.

use std::fmt::Write as _;
use std::path::Path;

use super::{Bound, COUNTERS, Counter, Needs};

const HEAD: &str = "\
# Limits of the host

What the kernel counts for the host as a whole is a way from one sandbox to all others: whoever uses it up takes it from
everybody. This is every such number that code in a sandbox can reach, with what bounds one sandbox. `skep doctor` says which of
them a host cannot bound as it is, and what to do. The page is written from `skep-host/src/counters/rows.rs` by
`SKEP_BLESS=1 cargo test -p skep-host counters`.

| what | the kernel's number | one sandbox | held by | a host needs |
|---|---|---|---|---|
";

const UNBOUNDED: &str = "
## Not bounded

| what | the kernel's number | why that is borne |
|---|---|---|
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut unbounded = UNBOUNDED.to_owned();
    for counter in COUNTERS {
        let Counter { what, kept_in, .. } = counter;
        let needs = in_words(counter.needs);
        match counter.bound {
            Bound::Nothing { by } => {
                writeln!(page, "| {what} | {kept_in} | none | {by} | {needs} |")
            }
            Bound::AtMost { most, by } => {
                writeln!(page, "| {what} | {kept_in} | {most} | {by} | {needs} |")
            }
            Bound::Unbounded { because } => {
                writeln!(unbounded, "| {what} | {kept_in} | {because} |")
            }
        }
        .unwrap();
    }
    page + &unbounded
}

fn in_words(needs: Needs) -> String {
    match needs {
        Needs::Nothing => String::new(),
        Needs::AtLeast(setting, least) => format!("`{setting}` of at least {least}"),
        Needs::AtMost(setting, most) => format!("`{setting}` of at most {most}"),
        Needs::MemoryFile(name) => format!("on cgroup v1 `{name}`"),
        Needs::NotStartedWith(option) => format!("a kernel without `cgroup.memory={option}`"),
        Needs::CountedSwap => "no swap, or a kernel that counts it".into(),
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test is told by a variable to write the page"
)]
fn the_page_tells_every_row() {
    let path = "../../docs/reference/machine-limits.md";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("SKEP_BLESS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap();
    assert!(there == page(), "`SKEP_BLESS=1` writes {}", path.display());
}
