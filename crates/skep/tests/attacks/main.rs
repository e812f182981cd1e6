//! Attacks on the isolation, from inside sandboxes of the whole product.
//!
//! Every program below `programs` tries one way out and prints one verdict: `HELD` and why, or
//! `ESCAPED` and the evidence. It is run twice. In a sandbox of `skep serve` it must be held.
//! In its control, a sandbox from which exactly the defences named in its head are left out, it
//! must escape: so no attack passes because it is badly made. A third run is in a sandbox that went
//! to the disk and came back, where it must be held, too.
//!
//! The test process, its server and its controls live in a network namespace whose only way
//! out is a second namespace that answers as every address there is. Nothing that an attack
//! sends can leave the host.
//!
//! `SKEP_BLESS=1` writes `docs/attacks.md` anew. `SKEP_ATTACKS_RESTORED=true` restores every sandbox
//! before it is used: those of bombs, queues and clean-ups, too. `-- --ignored races_are_counted` makes
//! each race on forks again and again in its control, and says how often it is won.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests, but clippy knows only those of the usual harness"
)]

mod agents;
mod attack;
mod bombs;
mod builds;
mod control;
mod copied;
mod counted;
mod edges;
mod forked;
mod full_host;
mod hoarding;
mod left_behind;
mod product;
mod remembered;
mod restored;
mod row;
mod sentinels;
mod stage;
mod suite;
mod table;
mod target;
mod undying;
mod volumes;
mod wall;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    let role = std::env::args().nth(1);
    if role.as_deref() == Some(world::ROLE) {
        return world::run();
    }
    suite::run()
}
