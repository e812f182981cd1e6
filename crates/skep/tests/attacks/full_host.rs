//! A team that asks for sandboxes, or for snapshots of one, until the host has no more to give.
//!
//! Its sandboxes write all they may. With admission it is refused while the reserve is left, and
//! a neighbour can still write what it was promised. The control is the same server without
//! admission: there the neighbour's writes are lost, although each of them succeeds.

use std::collections::BTreeMap;

use skep_client::{Client, ClientError};
use skep_telemetry::Chain;

use crate::product::{Product, create};
use crate::target::Target;

/// The disk of the server, in MiB.
const DISK: u32 = 400;
/// Disk limit of a sandbox, in MiB.
const SANDBOX: u32 = 64;
/// Number of sandboxes that would fill the disk twice.
const MOST: u32 = 2 * DISK / SANDBOX;
/// Disk space reserved for the growth of running sandboxes: more than the neighbour's whole disk.
const RESERVE: &str = "50%";

/// Effect of the attack on the neighbour.
#[derive(Debug, PartialEq, Eq)]
enum Neighbour {
    /// It wrote, and has what it wrote.
    Whole,
    /// Data that it wrote is lost.
    Harmed,
}

/// Ways to take the host's disk.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// As many sandboxes as there is room for, each of which writes.
    Sandboxes,
    /// One sandbox that has written, and many snapshots of it.
    Snapshots,
}

/// Attacks a server with admission and one without, in each way.
pub(crate) async fn check() -> Result<String, String> {
    let mut reports = Vec::new();
    for way in [Way::Sandboxes, Way::Snapshots] {
        reports.push(check_one(way).await?);
    }
    Ok(reports.join("; "))
}

async fn check_one(way: Way) -> Result<String, String> {
    let (taken, refused, neighbour) = attack(way, true).await;
    let (control_taken, _, control) = attack(way, false).await;
    let refusal = refused.as_ref().map(|error| Chain(error).to_string());
    let is_told = refused.is_some_and(|error| error.status() == Some(503))
        && refusal
            .as_ref()
            .is_some_and(|text| text.contains("disk space"));
    let report = format!(
        "{taken} {way:?}, then {refusal:?}, neighbour {neighbour:?}; without admission \
         {control_taken}, neighbour {control:?}"
    );
    match (neighbour, is_told, control) {
        (Neighbour::Whole, true, Neighbour::Harmed) => Ok(report),
        _ => Err(report),
    }
}

/// Returns the number of sandboxes or snapshots a team got, the error that stopped it, and the
/// effect on a neighbour.
async fn attack(way: Way, admission: bool) -> (u32, Option<ClientError>, Neighbour) {
    let product = Product::start_on_disk_of(
        DISK,
        &format!(
            "[limits]\ndisk_mib = {SANDBOX}\n\
             [admission]\nenabled = {admission}\ndisk_reserve = \"{RESERVE}\"\n\
             disk_per_sandbox_mib = {SANDBOX}\n"
        ),
    );
    let victim = create(&product.client, "base", &BTreeMap::new())
        .await
        .expect("the machine is empty");
    let mallory = product.add_team("mallory");
    let (taken, refused) = match way {
        Way::Sandboxes => take_sandboxes(&mallory).await,
        Way::Snapshots => take_snapshots(&mallory).await,
    };
    let neighbour = match write(&victim).await {
        Ok(true) => Neighbour::Whole,
        Ok(false) | Err(_) => Neighbour::Harmed,
    };
    product.finish().await;
    (taken, refused, neighbour)
}

async fn take_sandboxes(mallory: &Client) -> (u32, Option<ClientError>) {
    for taken in 0..MOST {
        match create(mallory, "base", &BTreeMap::new()).await {
            // It ends when there is no more, whoever says so.
            Ok(sandbox) => drop(write(&sandbox).await),
            Err(error) => return (taken, Some(error)),
        }
    }
    (MOST, None)
}

async fn take_snapshots(mallory: &Client) -> (u32, Option<ClientError>) {
    let sandbox = create(mallory, "base", &BTreeMap::new())
        .await
        .expect("there is room for one");
    write(&sandbox).await.expect("it may write");
    for taken in 0..MOST {
        let taking = mallory.sandbox(&sandbox.id);
        if let Err(error) = taking.snapshot(None, false).await {
            return (taken, Some(error));
        }
    }
    (MOST, None)
}

/// Writes what a sandbox may and says whether the disk has it.
async fn write(target: &Target) -> Result<bool, ClientError> {
    let bytes = SANDBOX - 8;
    let script =
        format!("head -c {bytes}M /dev/urandom > /var/tmp/taken && sync -d /var/tmp/taken");
    let ran = target.run("root", "sh", &["-c".into(), script]).await?;
    Ok(ran.code == 0)
}
