//! Keeping the rules in force while others change theirs.
//!
//! A reload of the host's own rules may begin with the removal of everything, ours included, and a
//! program such as Docker may be installed while sandboxes run.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use skep_telemetry::Chain;

use super::{FirewallError, install, list_chains, shared};
use crate::defence::Defence;
use crate::kernel_settings::Bystanders;
use crate::leases::Leases;

/// Time between two looks; each runs `nft` once or a few times.
const INTERVAL: Duration = Duration::from_secs(10);

/// Chains that packets enter by themselves. Without one of them the table is not whole.
const ENTRANCES: [&str; 5] = ["arriving", "redirecting", "input", "forward", "leaving"];

/// Puts back what others have removed, until `stop`.
pub(crate) async fn keep(
    leases: Arc<Leases>,
    bystanders: Bystanders,
    stop: impl Future<Output = ()>,
) {
    tokio::pin!(stop);
    let known = Arc::new((leases, bystanders));
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = &mut stop => return,
        }
        let known = Arc::clone(&known);
        let kept = tokio::task::spawn_blocking(move || look(&known.0, &known.1)).await;
        match kept {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(error = %Chain(&error), "cannot keep the packet filter's rules");
            }
            Err(panic) => {
                tracing::error!(error = %Chain(&panic), "looking at the packet filter panicked");
            }
        }
    }
}

fn look(leases: &Leases, bystanders: &Bystanders) -> Result<(), FirewallError> {
    let (naming, config) = (leases.naming, &leases.config);
    let chains = list_chains()?;
    if !is_whole(&naming.table(), &chains) {
        tracing::error!(
            table = naming.table(),
            "somebody has removed the packet filter's rules; they are put back"
        );
        return leases.reinstall_filter(|| install(naming, config, bystanders));
    }
    if config.has(Defence::SharedFilter) {
        shared::enter(naming, &chains)?;
    }
    Ok(())
}

fn is_whole(table: &str, chains: &[Value]) -> bool {
    let has = |name: &str| {
        let mut chains = chains.iter();
        chains.any(|chain| {
            chain["family"] == "inet" && chain["table"] == table && chain["name"] == name
        })
    };
    ENTRANCES.into_iter().all(has)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_without_one_of_its_entrances_is_not_whole() {
        let chain =
            |table: &str, name: &str| json!({"family": "inet", "table": table, "name": name});
        let mut chains: Vec<_> = ENTRANCES.map(|name| chain("skep3", name)).into();
        assert!(is_whole("skep3", &chains));
        assert!(!is_whole("skep4", &chains));
        chains.remove(2);
        chains.push(chain("skep4", "forward"));
        assert!(!is_whole("skep3", &chains));
        assert!(!is_whole("skep3", &[]));
    }
}
