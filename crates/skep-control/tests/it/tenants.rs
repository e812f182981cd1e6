//! Sharing of warmed state between teams.

use std::sync::Arc;

use jiff::Timestamp;
use skep_control::{
    Caller, Control, CreateRequest, FakeBuilds, FakeNodes, FakeTemplates, FakeUploads, FakeVolumes,
    Parts, TeamLimits, TemplateInfo,
};
use skep_store::Team;
use skep_types::{Resources, Sharing, TeamId, TemplateId, TenantId};
use tempfile::TempDir;

use crate::{anybody, fake, request, store};

/// A service with two teams, each with a sandbox of `base` and one of a template that the
/// second team brought and others may use.
struct Launched {
    control: Control,
    nodes: Arc<FakeNodes>,
    base: [TenantId; 2],
    brought: [TenantId; 2],
    _folder: TempDir,
}

/// Creates them where templates that belong to everybody are shared like this.
async fn launch(sharing: Sharing) -> Launched {
    let directory = TempDir::new().unwrap();
    let store = store(directory.path());
    let nodes = fake(&store);
    let owner = TeamId::random();
    let brought = TemplateInfo {
        id: TemplateId::random(),
        names: vec!["brought".to_owned()],
        owner: Some(owner.clone()),
        public: true,
        resources: Resources::default(),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    };
    let id = brought.id.to_string();
    let templates = FakeTemplates::named(&["base"]).shared(sharing);
    let parts = Parts {
        store: store.clone(),
        nodes: Arc::<FakeNodes>::clone(&nodes),
        templates: Arc::new(templates.with(brought)),
        builds: Arc::new(FakeBuilds::default()),
        uploads: Arc::new(FakeUploads::default()),
        volumes: Arc::new(FakeVolumes::default()),
        vault: skep_seal::KeySource::OwnFile(store.path().with_extension("key")),
        limits: TeamLimits::default(),
        living: crate::living(&store).await,
    };
    let control = Control::open(parts).await.unwrap();
    let one = anybody(&control).await;
    let other = Caller {
        team: Team {
            id: owner,
            slug: "other".to_owned(),
            is_default: false,
            ..one.team.clone()
        },
        ..one.clone()
    };
    let recorded = store.teams().insert(other.team.clone()).recorded().await;
    recorded.unwrap();
    let tenant = async |caller: &Caller, template: &str| {
        let request = CreateRequest {
            template: template.parse().unwrap(),
            ..request()
        };
        let order = control.create(caller, request).await.unwrap();
        nodes.spec(&order.id).unwrap().tenant
    };
    let base = [tenant(&one, "base").await, tenant(&other, "base").await];
    let brought = [tenant(&one, &id).await, tenant(&other, &id).await];
    Launched {
        control,
        nodes,
        base,
        brought,
        _folder: directory,
    }
}

#[tokio::test]
async fn two_teams_are_two_tenants() {
    let launched = launch(Sharing::default()).await;
    assert_ne!(launched.base[0], launched.base[1]);
    // A team is the same tenant in all its sandboxes.
    assert_eq!(launched.base, launched.brought);
}

#[tokio::test]
async fn teams_are_one_tenant_where_the_operator_says_so_but_not_in_what_a_team_brought() {
    let launched = launch(Sharing::BetweenTeams).await;
    assert_eq!(launched.base[0], launched.base[1]);
    assert_ne!(launched.brought[0], launched.brought[1]);
    assert!(!launched.brought.contains(&launched.base[0]));
}

#[tokio::test]
async fn at_its_start_a_server_warms_for_the_team_of_the_local_key() {
    let launched = launch(Sharing::default()).await;
    let references = ["base".parse().unwrap()];
    launched.control.warm(&references).await.unwrap();
    let warmed = launched.nodes.warmed();
    let tenants: Vec<_> = warmed.iter().map(|(_, tenant)| tenant).collect();
    assert_eq!(tenants, [&launched.base[0]]);
}
