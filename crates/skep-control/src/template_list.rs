//! Templates that a team can use.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use skep_store::{BuildRecord, BuildStatus, Spawns, StoreError, TemplateRecord};
use skep_types::{TemplateId, TemplateReference};

use crate::{Caller, CheckpointRecord, Control, ResolveError, SnapshotQuery, TemplateInfo};

/// A template with how much the team uses it.
#[derive(Debug, Clone)]
pub struct ListedTemplate {
    /// Names, owner, limits and times of the template.
    pub info: TemplateInfo,
    /// Slug of its owner, in whose namespace its names are.
    pub slug: Option<String>,
    /// Id of the newest build, as text. A template that belongs to everybody is immutable, so its id
    /// stands for one.
    pub build: String,
    /// State of that build.
    pub status: BuildStatus,
    /// Number of its builds.
    pub build_count: usize,
    /// Number of sandboxes that the team made of it.
    pub spawns: u64,
    /// Time at which it last did.
    pub last_spawned_at: Option<Timestamp>,
}

/// A template with its builds, the newest first. One that belongs to everybody has none.
#[derive(Debug, Clone)]
pub struct TemplateHistory {
    /// The template.
    pub listed: ListedTemplate,
    /// Its builds.
    pub builds: Vec<BuildRecord>,
}

/// Failure to show templates.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The reference gives none.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// Usage counts could not be read.
    #[error(transparent)]
    Record(#[from] StoreError),
}

impl Control {
    /// The templates the caller's team can use.
    ///
    /// # Errors
    ///
    /// [`TemplateError`].
    pub async fn templates(&self, caller: &Caller) -> Result<Vec<ListedTemplate>, TemplateError> {
        let spawns = self.spawns(caller).await?;
        let infos = self.inner.templates.list(&caller.team).await?;
        let mut listed: Vec<_> = infos
            .into_iter()
            .map(|info| everybodys(info, &spawns))
            .collect();
        let own = self
            .inner
            .store
            .templates()
            .list(caller.team.id.clone())
            .await?;
        for record in own {
            listed.push(self.history(record, &spawns).await?.listed);
        }
        Ok(listed)
    }

    /// The template that a reference means, with its builds.
    ///
    /// # Errors
    ///
    /// [`TemplateError`].
    pub async fn template_history(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
    ) -> Result<TemplateHistory, TemplateError> {
        let spawns = self.spawns(caller).await?;
        if let Some(record) = self.find_team_template(&caller.team, reference).await? {
            return Ok(self.history(record, &spawns).await?);
        }
        if let Some(snapshot) = self.newest_snapshot(caller, reference).await? {
            return Ok(TemplateHistory {
                listed: of_snapshot(caller, snapshot, &spawns),
                builds: Vec::new(),
            });
        }
        let info = self.inner.templates.find(reference, &caller.team).await?;
        Ok(TemplateHistory {
            listed: everybodys(info, &spawns),
            builds: Vec::new(),
        })
    }

    /// The template that the caller's team means by a reference.
    ///
    /// # Errors
    ///
    /// [`ResolveError`].
    pub async fn find_template(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
    ) -> Result<TemplateInfo, ResolveError> {
        if let Some(record) = self.find_team_template(&caller.team, reference).await? {
            return self.team_template_info(record, reference).await;
        }
        match self.newest_snapshot(caller, reference).await? {
            Some(snapshot) => Ok(info_of(snapshot)),
            None => self.inner.templates.find(reference, &caller.team).await,
        }
    }

    /// The newest snapshot of a name or id, whatever its tag.
    async fn newest_snapshot(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
    ) -> Result<Option<CheckpointRecord>, StoreError> {
        let query = SnapshotQuery {
            named: Some(reference.clone()),
            limit: 1,
            ..SnapshotQuery::default()
        };
        Ok(self.snapshots(caller, query).await?.items.pop())
    }

    async fn spawns(&self, caller: &Caller) -> Result<Vec<Spawns>, StoreError> {
        let team = caller.team.id.clone();
        self.inner.store.sandboxes().spawns(team).await
    }

    async fn history(
        &self,
        record: TemplateRecord,
        spawns: &[Spawns],
    ) -> Result<TemplateHistory, StoreError> {
        let builds = self
            .inner
            .store
            .builds()
            .of_template(record.id.clone())
            .await?;
        // The one that is used, and if there is none the newest, to say how it goes.
        let ready = builds
            .iter()
            .find(|build| build.status == BuildStatus::Ready);
        let shown = ready.or(builds.first());
        let (count, last) = used(&record.id, spawns);
        let listed = ListedTemplate {
            slug: Some(record.slug),
            build: shown.map(|build| build.id.to_string()).unwrap_or_default(),
            status: shown.map_or(BuildStatus::Waiting, |build| build.status),
            build_count: builds.len(),
            spawns: count,
            last_spawned_at: last,
            info: TemplateInfo {
                id: record.id,
                names: vec![record.name],
                owner: Some(record.team),
                public: record.public,
                resources: shown.map(|build| build.resources).unwrap_or_default(),
                created_at: record.created_at,
                updated_at: record.updated_at,
            },
        };
        Ok(TemplateHistory { listed, builds })
    }
}

fn info_of(snapshot: CheckpointRecord) -> TemplateInfo {
    TemplateInfo {
        id: snapshot.snapshot,
        names: snapshot.name.into_iter().collect(),
        owner: Some(snapshot.team),
        public: false,
        resources: snapshot.resources,
        created_at: snapshot.created_at,
        updated_at: snapshot.created_at,
    }
}

/// A snapshot as the template that it is. It was built by nobody.
fn of_snapshot(caller: &Caller, snapshot: CheckpointRecord, spawns: &[Spawns]) -> ListedTemplate {
    ListedTemplate {
        build: build_of(snapshot.id.as_str()),
        slug: Some(caller.team.slug.clone()),
        ..everybodys(info_of(snapshot), spawns)
    }
}

fn everybodys(info: TemplateInfo, spawns: &[Spawns]) -> ListedTemplate {
    let (count, last) = used(&info.id, spawns);
    ListedTemplate {
        slug: None,
        build: build_of(info.id.as_str()),
        status: BuildStatus::Ready,
        build_count: 1,
        spawns: count,
        last_spawned_at: last,
        info,
    }
}

fn used(template: &TemplateId, spawns: &[Spawns]) -> (u64, Option<Timestamp>) {
    let spawns = spawns.iter().find(|spawns| spawns.template == *template);
    spawns.map_or((0, None), |spawns| (spawns.count, Some(spawns.last)))
}

/// The build that something immutable is, by its id.
pub(crate) fn build_of(id: &str) -> String {
    let digest = Sha256::digest(id);
    let bytes = digest.first_chunk().expect("the digest has 32 bytes");
    uuid::Builder::from_custom_bytes(*bytes)
        .into_uuid()
        .to_string()
}
