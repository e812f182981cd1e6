//! Checks of this host's abilities, found out by trying.

mod trial;

use skep_host::{checks_of_host, checks_of_limits, checks_of_network, checks_of_tiers};
use skep_types::Check;

use crate::config::NativeConfig;

/// Looks at everything that sandboxes need of this host, and tries what can only be found
/// out by trying. Blocks for a second or so; leaves nothing behind.
///
/// Needs no running server and disturbs none.
pub fn probe(config: &NativeConfig) -> Vec<Check> {
    let mut checks = checks_of_host(&config.host);
    checks.push(trial::launch(config));
    checks.extend(checks_of_network());
    checks.extend(checks_of_tiers());
    checks.extend(checks_of_limits(&config.host));
    checks
}
