//! The page with all attacks.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::attack::Attack;
use crate::edges;

const HEAD: &str = "\
# Attacks

Every row is a program in `crates/skep/tests/attacks/programs` that `make test` runs three times: in a sandbox of the whole product
and in one that was written to the disk and restored, where it must be held, and in its control, a sandbox that lacks exactly what the last column names, where it must escape. Where
one wall alone would hold, too, the control lacks all that would. Network attacks run in namespaces of the test, which answer as
every address there is; no packet leaves the machine. This page is written by the suite (`SKEP_BLESS=1`).

A step of a build, which is launched in another way, makes those on walls once more as root, and asks for uploads, results of steps, downloads and versions of another team,
whose owner finds them (`a_step_of_a_build_is_a_sandbox_of_its_team`).

Volumes (`volumes_carry_files_and_nothing_more`, and the tests of `skep-volume`): one sandbox plants set-user-id programs, devices, links and pipes for another, for the server and for a mount that only reads,
swaps directories for links while the server opens them, goes on to write in what is deleted, nests links for its listing, writes more than fits in every way there is, asks for volumes and tokens of another team, for a
volume inside a shared one (which it could take away), and links the place of a volume to `/dev`, `/sys`, `/etc` and, before its sandbox goes to the disk, to the host's root (also `skep-launch`, tests `volumes`, for links of a template). Agents by MCP (`agents_reach_what_is_their_teams_alone`, and
`conformance/mcp`): the session of another key, sandboxes and files of another team by every argument and URI, paths that lead out of a sandbox, the gateway's token of a neighbour. Each has its control beside it: the plain
call is led astray, the owner is let in.

Packages (`skep-mirror`, tests `abuse`): a registry that sends another file than its index promises, breaks off, names or redirects to hosts of the server's network, or never ends; a sandbox that asks the mirror for paths, for
hosts, with a forged `Host`, and with more connections than it may have; and a fetch that is abandoned. Each has its control beside it: the right file is passed on, a redirect to the registry itself is followed, a name is found.

Bombs (`bombs::`), queues (`queues::`) and clean-ups, which are no rows here, run in launched sandboxes; with `SKEP_ATTACKS_RESTORED=true` every sandbox of the
suite is restored before it is used.

";

/// Features that the kernel or the harness of the development host lacks, with reasons.
const NOT_HERE: [(&str, &str); 3] = [
    (
        "kcore",
        "its kernel was built without the file, and nothing stands in for one that is not there. The mask is the one of \
         `keys` and `timers`, whose controls were seen",
    ),
    (
        "sysrq",
        "its kernel was built without the file, and nothing stands in for one that is not there. The mask is the one of \
         `keys` and `timers`, whose controls were seen",
    ),
    (
        "the right to raise limits",
        "`CAP_SYS_RESOURCE` is in the bounding set of no process of that machine. The kernel asks for it in the first user \
         namespace, where nothing gives it back, so no control can have it",
    ),
];

const NOT_SEEN: &str = "
## Controls that were not seen to succeed

These attacks are held in a sandbox, as all others are, but their control could not be tried on the machine where Skep is
developed. So there is no proof that they would have escaped without the wall. On a machine that has what they need, the suite
tries their control, too, and fails if it does not escape.

| attack | why not |
|---|---|
";

/// Figures of runs by hand, which the suite cannot repeat: it has no older server.
const RACES: &str = "
## Races, and how often they are won

An attack that has to be fast tries many times in one run, so that a wall with a hole would be seen. How many runs escaped: on a server of before the
wall (commit c9548e4, with its own templates), and without the wall now (files: against the file API that opens what it is told). That server held two of
the races about files already, because it removed by descriptors. Races on forks are counted without the wall by `-- --ignored races_are_counted`, each run in a control
of its own, whose zygote gives up its rights in the order of that server; in the suite each must be won within four runs, or it fails. `zygote::spoil` and `zygote::steal`
were not tried on that server; that control stands for it, because it is the order of that server's steps that they use (`entering_zygote.py` enters the pid namespace first, with the socket of all requests), and nothing else of it.

| attack | one run tries | before the wall | without the wall |
|---|---|---|---|
| `files::make_race` | 40 directories behind each of 21 descriptors, for 20 s | 10 of 10 | 20 of 20 |
| `files::removal_race` | 8 trees of 400 files | 0 of 10 | 20 of 20 |
| `files::upload_race` | one upload that waits for the swap | 0 of 10 | 20 of 20 |
| `zygote::take_over` | 20 to 30 forks | 9 of 10 | 10 of 10 |
| `zygote::signal` | 20 to 30 forks | 9 of 10 | 10 of 10 |
| `zygote::stop` | until one stands still | 10 of 10 | 10 of 10 |
| `zygote::spoil` | 20 to 30 forks | not tried | 10 of 10 |
| `zygote::steal` | forks for 32 s | not tried | 10 of 10 |
";

pub(crate) fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/attacks.md")
}

/// The page. It tells what must be, so it is the same on every host.
pub(crate) fn page(attacks: &[Attack]) -> String {
    let mut page = HEAD.to_owned();
    let mut group = "";
    for attack in attacks {
        if attack.group != group {
            group = &attack.group;
            let title = group.replace('-', " ");
            write!(
                page,
                "\n## {title}\n\n| attack | tries | in | held by |\n|---|---|---|---|\n"
            )
            .unwrap();
        }
        let needs = match (&attack.needs, why_not_seen(attack)) {
            (Some(needs), Some(_)) => {
                format!(" (its control needs {needs}; not seen, see below)")
            }
            (Some(needs), None) => format!(" (its control needs {needs})"),
            (None, _) => String::new(),
        };
        let held_by = attack.control.in_words();
        let (name, tries) = (&attack.name, &attack.tries);
        let places = if attack.is_of_one_sandbox() {
            "launched, restored"
        } else {
            "launched"
        };
        writeln!(page, "| `{name}` | {tries} | {places} | {held_by}{needs} |").unwrap();
    }
    page.push_str(&edges::sections());
    page.push_str(RACES);
    page.push_str(&not_seen(attacks));
    page
}

/// The attacks whose control nobody has seen succeed, and the sum.
fn not_seen(attacks: &[Attack]) -> String {
    let mut text = NOT_SEEN.to_owned();
    let mut count = 0;
    for attack in attacks {
        if let Some(why) = why_not_seen(attack) {
            writeln!(text, "| `{}` | {why} |", attack.full_name()).unwrap();
            count += 1;
        }
    }
    let seen = attacks.len() - count;
    writeln!(
        text,
        "\n{} attacks, {seen} of them with a control that was seen to succeed.",
        attacks.len()
    )
    .unwrap();
    text
}

fn why_not_seen(attack: &Attack) -> Option<&'static str> {
    let needs = attack.needs.as_deref()?;
    NOT_HERE
        .iter()
        .find_map(|(missing, why)| (*missing == needs).then_some(*why))
}
