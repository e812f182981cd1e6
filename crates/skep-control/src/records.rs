//! Every sandbox a team ever had, with how it ended and what it used.

use skep_store::{Position, SandboxFilter, SandboxRecord, StoreError};
use skep_types::Phase;

use crate::{Caller, Control, Cursor};

/// Selection of records, from the newest to the oldest.
#[derive(Debug, Clone)]
pub struct RecordQuery {
    /// Includes the ended ones if true.
    pub ended: bool,
    /// Limit on the records of a page.
    pub limit: u32,
    /// End of the page before.
    pub after: Option<Cursor>,
}

/// One page of records.
#[derive(Debug, Clone)]
pub struct RecordPage {
    /// The records, each with the current phase of its sandbox.
    pub items: Vec<(SandboxRecord, Phase)>,
    /// Start of the next page, if there is one.
    pub next: Option<Cursor>,
}

impl Control {
    /// The records of the caller's team.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn records(
        &self,
        caller: &Caller,
        query: RecordQuery,
    ) -> Result<RecordPage, StoreError> {
        let filter = SandboxFilter {
            team: Some(caller.team.id.clone()),
            ended: query.ended,
            after: query.after.map(|cursor| Position {
                created_at: cursor.at,
                id: cursor.id,
            }),
            // One more tells whether there is another page.
            limit: query.limit.saturating_add(1),
        };
        let mut records = self.inner.store.sandboxes().list(filter).await?;
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let more = records.len() > limit;
        records.truncate(limit);
        let last = records.last().filter(|_| more);
        let next = last.map(|record| Cursor {
            at: record.order.created_at,
            id: record.order.id.clone(),
        });
        let mut items = Vec::with_capacity(records.len());
        for record in records {
            let phase = match &record.ending {
                Some(_) => Phase::Gone,
                None => {
                    let published = self.inner.nodes.status(&record.order.id).await;
                    published.map_or(record.phase(), |status| status.phase)
                }
            };
            items.push((record, phase));
        }
        Ok(RecordPage { items, next })
    }
}
