//! Connections that the host's packet filter remembers for a sandbox that is gone.
//!
//! They would be there for minutes, or for days if the far end helps, take places in a table that
//! is the host's, and be counted to the next sandbox with that address. The control is that
//! closing them is not enough: they are remembered until the sandbox ends.

use std::time::Duration;

use crate::product::Product;
use crate::sentinels::Sentinels;
use crate::target::Target;

const TABLE: &str = "/proc/net/nf_conntrack";
const CONNECTIONS: usize = 50;
const TIMEOUT: Duration = Duration::from_secs(30);
/// Connects to somebody in the world, hears what they say, and closes.
const CONNECT: &str = "import socket\nfor _ in range(50):\n \
    with socket.create_connection((\"93.184.216.34\", 80), 5) as connection:\n  \
    while connection.recv(100): pass";

pub(crate) async fn check(product: &Product, sentinels: &Sentinels) -> Result<String, String> {
    let (target, neighbour) = (
        product.create(sentinels).await,
        product.create(sentinels).await,
    );
    let (address, other) = (connect(&target).await, connect(&neighbour).await);
    let closed = remembered(&address);
    product.kill(&target).await;
    skep_testkit::wait_until(TIMEOUT, async || match remembered(&address) {
        0 => Ok(()),
        left => Err(format!("{left} are remembered after the end")),
    })
    .await;
    let others = remembered(&other);
    product.kill(&neighbour).await;
    let report = format!(
        "{closed} closed connections are remembered, none after the end, {others} of a neighbour"
    );
    if closed >= CONNECTIONS && others >= CONNECTIONS {
        Ok(report)
    } else {
        Err(report)
    }
}

/// Makes and closes connections, and says from which address.
async fn connect(target: &Target) -> String {
    let arguments = ["-I".to_owned(), "-c".to_owned(), CONNECT.to_owned()];
    let ran = target.run("user", "python3", &arguments).await.unwrap();
    assert_eq!(ran.code, 0, "{ran:?}");
    target.shell("hostname -I").await.trim().to_owned()
}

/// Number of tracked connections that an address has begun.
fn remembered(address: &str) -> usize {
    let table = std::fs::read_to_string(TABLE).unwrap();
    let source = format!("src={address}");
    // The first of the two senders in a line is who began.
    let begun =
        |line: &&str| line.split(' ').find(|word| word.starts_with("src=")) == Some(&source);
    table.lines().filter(begun).count()
}
