//! `GET /teams`

use axum::Json;
use skep_control::ApiKey;
use skep_wire::rest;

use crate::authorized::Authorized;

/// The caller's team. A caller belongs to one, so that one is the default for them.
pub(crate) async fn list_teams(authorized: Authorized) -> Json<Vec<rest::Team>> {
    // The command line saves the key it is given here. Keys are kept as hashes only, so the one
    // that was just shown is the one that works; where no key is asked for, any does.
    let key = authorized.key.unwrap_or_else(ApiKey::random);
    let team = authorized.caller.team;
    Json(vec![rest::Team {
        team_id: team.id.to_string(),
        name: team.name,
        api_key: key.reveal().to_owned(),
        is_default: true,
    }])
}
