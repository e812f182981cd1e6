//! Sockets and open files full of memory that no cgroup counts, and locks.
//!
//! A sandbox of the product that fills them must end, for want of memory, and its neighbour must
//! not. The control is the same program in a sandbox that nobody watches: there it holds more
//! than it may for as long as it likes.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use skep_types::TemplateImage;

use crate::attack::helper;
use crate::control::{Control, Weakened};
use crate::product::Product;
use crate::sentinels::Sentinels;
use crate::target::{Target, Verdict, command};

/// Time limit for an offender to be ended. A look at the descriptors of the case before may have taken seconds, and
/// whoever looks rests for twenty times as long; what is taken meanwhile is bounded by the host's memory, not by time.
const TIMEOUT: Duration = Duration::from_secs(180);
const LIBRARY: &str = include_str!("queues/queue.py");

/// One kind of queue, open file or lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) name: &'static str,
    program: &'static str,
}

/// The ways to hoard kernel memory that no cgroup counts.
pub(crate) const QUEUES: [Queue; 12] = [
    Queue {
        name: "answers",
        program: include_str!("queues/answers.py"),
    },
    Queue {
        name: "pings",
        program: include_str!("queues/pings.py"),
    },
    Queue {
        name: "unaccepted",
        program: include_str!("queues/unaccepted.py"),
    },
    Queue {
        name: "errors",
        program: include_str!("queues/errors.py"),
    },
    Queue {
        name: "locks",
        program: include_str!("queues/locks.py"),
    },
    Queue {
        name: "locks_of_descriptions",
        program: include_str!("queues/locks_of_descriptions.py"),
    },
    Queue {
        name: "locks_on_the_inode_of_all",
        program: include_str!("queues/locks_on_the_inode_of_all.py"),
    },
    Queue {
        name: "inherited_locks",
        program: include_str!("queues/inherited_locks.py"),
    },
    Queue {
        name: "directories",
        program: include_str!("queues/directories.py"),
    },
    Queue {
        name: "merged_directories",
        program: include_str!("queues/merged_directories.py"),
    },
    Queue {
        name: "descriptors_on_their_way",
        program: include_str!("queues/descriptors_on_their_way.py"),
    },
    Queue {
        name: "route_sockets",
        program: include_str!("queues/route_sockets.py"),
    },
];

impl Queue {
    /// Fills queues of this kind where somebody watches and where nobody does.
    pub(crate) async fn check(
        self,
        product: &Product,
        image: &TemplateImage,
        sentinels: &Sentinels,
    ) -> Result<String, String> {
        let command = command(&format!(
            "{}\n\n{LIBRARY}\n\n{}",
            helper("attack.py"),
            self.program
        ));
        let (offender, neighbour) = (
            product.create(sentinels).await,
            product.create(sentinels).await,
        );
        let start = Instant::now();
        let verdict = offender.judge("user", &command).await;
        let took = start.elapsed();
        let ended = end_reason(product, &offender).await;
        if ended.is_none() {
            // The cases after this one count what is left.
            product.try_kill(&offender.id).await;
        }
        let reason = ended.as_deref().unwrap_or("not by the server");
        let neighbour_lives = product.try_kill(&neighbour.id).await;
        let control = Weakened::new(&Control::Without(BTreeSet::new()), image, sentinels)
            .await
            .map_err(|error| skep_telemetry::Chain(&error).to_string())?;
        let unwatched = control.target.judge("user", &command).await;
        control.finish().await;
        let report = format!(
            "ended in {took:.1?} ({reason}), neighbour lives: {neighbour_lives}; unwatched: {unwatched}"
        );
        let is_ended = reason == "out_of_memory" && !matches!(verdict, Verdict::Escaped(_));
        if is_ended && neighbour_lives && matches!(unwatched, Verdict::Escaped(_)) {
            Ok(report)
        } else {
            Err(format!("{verdict}; {report}"))
        }
    }
}

/// Waits for the end of a sandbox and returns its reason; `None` if nobody ends it in time.
async fn end_reason(product: &Product, target: &Target) -> Option<String> {
    let ending = skep_testkit::wait_until(2 * TIMEOUT, async || {
        let records = product.client.sandboxes().records(true).await.unwrap();
        records
            .into_iter()
            .find(|record| record.sandbox_id == target.id)
            .and_then(|record| record.end_reason)
            .ok_or("nobody has ended it")
    });
    tokio::time::timeout(TIMEOUT, ending).await.ok()
}
