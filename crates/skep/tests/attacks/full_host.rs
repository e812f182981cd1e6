//! A team that asks for sandboxes until the host has no more to give.
//!
//! Its sandboxes write all they may. With admission it is refused while the reserve is left, and
//! a neighbour can still write what it was promised. The control is the same server without
//! admission: there the neighbour's writes are lost, although each of them succeeds.

use std::collections::BTreeMap;

use skep_client::ClientError;
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

/// Attacks a server with admission and one without.
pub(crate) async fn check() -> Result<String, String> {
    let (taken, refused, neighbour) = attack(true).await;
    let (control_taken, _, control) = attack(false).await;
    let refusal = refused.as_ref().map(|error| Chain(error).to_string());
    let is_told = refused.is_some_and(|error| error.status() == Some(503))
        && refusal
            .as_ref()
            .is_some_and(|text| text.contains("disk space"));
    let report = format!(
        "{taken} sandboxes, then {refusal:?}, neighbour {neighbour:?}; without admission \
         {control_taken}, neighbour {control:?}"
    );
    match (neighbour, is_told, control) {
        (Neighbour::Whole, true, Neighbour::Harmed) => Ok(report),
        _ => Err(report),
    }
}

/// Returns the number of sandboxes a team got, the error that stopped it, and the effect on a
/// neighbour.
async fn attack(admission: bool) -> (u32, Option<ClientError>, Neighbour) {
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
    let mut taken = 0;
    let mut refused = None;
    while taken < MOST && refused.is_none() {
        match create(&mallory, "base", &BTreeMap::new()).await {
            Ok(sandbox) => {
                taken += 1;
                // It ends when there is no more, whoever says so.
                write(&sandbox).await.ok();
            }
            Err(error) => refused = Some(error),
        }
    }
    let neighbour = match write(&victim).await {
        Ok(true) => Neighbour::Whole,
        Ok(false) | Err(_) => Neighbour::Harmed,
    };
    product.finish().await;
    (taken, refused, neighbour)
}

/// Writes what a sandbox may and says whether the disk has it.
async fn write(target: &Target) -> Result<bool, ClientError> {
    let bytes = SANDBOX - 8;
    let script =
        format!("head -c {bytes}M /dev/urandom > /var/tmp/taken && sync -d /var/tmp/taken");
    let ran = target.run("root", "sh", &["-c".into(), script]).await?;
    Ok(ran.code == 0)
}
