//! The page with all attacks.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::attack::Attack;

const HEAD: &str = "\
# Attacks

Every row is a program in `crates/skep/tests/attacks/programs` that `make test` runs twice: in a sandbox of the whole product,
where it must be held, and in its control, a sandbox that lacks exactly what the last column names, where it must escape. Where
one wall alone would hold, too, the control lacks all that would. Network attacks run in namespaces of the test, which answer as
every address there is; no packet leaves the machine. This page is written by the suite (`SKEP_BLESS=1`).

";

pub(crate) fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/attacks.md")
}

/// The page. It tells what must be, so it is the same on every machine.
pub(crate) fn page(attacks: &[Attack]) -> String {
    let mut page = HEAD.to_owned();
    let mut group = "";
    for attack in attacks {
        if attack.group != group {
            group = &attack.group;
            let title = group.replace('-', " ");
            write!(
                page,
                "\n## {title}\n\n| attack | tries | held by |\n|---|---|---|\n"
            )
            .unwrap();
        }
        let needs = attack
            .needs
            .as_ref()
            .map(|needs| format!(" (control where the kernel has {needs})"))
            .unwrap_or_default();
        let held_by = attack.control.in_words();
        let (name, tries) = (&attack.name, &attack.tries);
        writeln!(page, "| `{name}` | {tries} | {held_by}{needs} |").unwrap();
    }
    write!(page, "\n{} attacks.\n", attacks.len()).unwrap();
    page
}
