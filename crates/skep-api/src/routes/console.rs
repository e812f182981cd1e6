//! `/skep/console/…`: letting a browser in without showing it a key that stays.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use skep_control::KeyError;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::Body;
use crate::error::{ApiError, Retry};
use crate::router::Edge;
use crate::tickets::{MOST_TICKETS, TooManyTickets};

/// Time within which a ticket is to be used: somebody follows a link that was just printed.
const TICKET_LIFETIME: Duration = Duration::from_mins(1);

/// `POST /skep/console/tickets`
pub(crate) async fn issue(
    authorized: Authorized,
    State(edge): State<Edge>,
) -> Result<(StatusCode, Json<rest::ConsoleTicket>), ApiError> {
    let team = &authorized.caller.team.id;
    let expires_at = Timestamp::now() + TICKET_LIFETIME;
    let issued = edge.tickets().issue(team, TICKET_LIFETIME);
    let ticket = issued.map_err(|TooManyTickets| {
        ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_tickets",
            format!("{MOST_TICKETS} links of your team wait to be opened; they end in a minute"),
        )
        .retry(Retry::After(60))
    })?;
    let issued = rest::ConsoleTicket { ticket, expires_at };
    Ok((StatusCode::CREATED, Json(issued)))
}

/// `POST /skep/console/sessions`: the ticket is all that is shown.
pub(crate) async fn open(
    State(edge): State<Edge>,
    Body(body): Body<rest::NewConsoleSession>,
) -> Result<(StatusCode, Json<rest::ConsoleSession>), ApiError> {
    let team = edge.tickets().redeem(&body.ticket).ok_or_else(useless)?;
    let made = edge.control().create_console_key(&team).await;
    let (made, team) = made.map_err(|error| match error {
        KeyError::NotFound => useless(),
        error @ (KeyError::TooMany { .. }
        | KeyError::Revoked
        | KeyError::NotYours
        | KeyError::Record(_)) => error.into(),
    })?;
    let expires_at = made.record.expires_at;
    let session = rest::ConsoleSession {
        api_key: made.key.reveal().to_owned(),
        expires_at: expires_at.expect("keys of browsers expire"),
        team: rest::ConsoleTeam {
            team_id: team.id.to_string(),
            name: team.name,
        },
    };
    Ok((StatusCode::CREATED, Json(session)))
}

fn useless() -> ApiError {
    let message = "the link was opened already, or is too old; `skep console` prints another";
    ApiError::new(StatusCode::UNAUTHORIZED, "invalid_ticket", message).retry(Retry::Never)
}
