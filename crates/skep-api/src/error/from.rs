//! Status, code and text of each failure. Here the caller's sentence and the operator's log line
//! part ways.

use std::time::Duration;

use axum::http::StatusCode;
use skep_control::{
    AuthError, Blocked, ChangeError, CreateError, CursorError, DeadlineError, IdempotencyError,
    IdempotencyKeyError, KeyError, LifetimeError, NodeCreateError, QuotaReached, ResolveError,
    SandboxNotFound, SnapshotError, StopError, StoreError, TemplateError,
};
use skep_telemetry::Chain;
use skep_types::{Capability, HostResource, Phase, ReferenceError, TransitionError, Unsupported};

use super::{ApiError, Retry};
use crate::render;

/// Advice of a server that is full: somebody has to end a sandbox first.
const NO_ROOM: Retry = Retry::After(5);

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Unknown => Self::unauthorized(
                "Invalid API key, please check X-API-Key; whoever runs this server makes keys with `skep key create`",
            ),
            AuthError::Banned => Self::new(StatusCode::FORBIDDEN, "team_banned", "team is banned"),
            AuthError::Record(error) => error.into(),
        }
    }
}

impl From<Blocked> for ApiError {
    fn from(error: Blocked) -> Self {
        Self::new(StatusCode::FORBIDDEN, "team_blocked", error.to_string())
    }
}

/// Conversion for calls that only read, or whose write may be repeated.
impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        // A full disk is told once, by whoever writes, and lasts.
        if error.is_of_disk() {
            tracing::debug!(error = %Chain(&error), "database write refused, the disk is full");
            let message =
                "the server's disk is full and it records no changes now; try again later";
            return Self::unavailable("server_disk_full", message).retry(NO_ROOM);
        }
        tracing::error!(error = %Chain(&error), "database operation failed");
        if error.is_transient() {
            return Self::unavailable("record_busy", "the server is busy; try again in a moment")
                .retry(Retry::After(1));
        }
        Self::internal("the server cannot read or write its database")
    }
}

impl From<ResolveError> for ApiError {
    fn from(error: ResolveError) -> Self {
        let message = error.to_string();
        match &error {
            ResolveError::NotFound { .. } => Self::not_found("template_not_found", message),
            ResolveError::NoSuchTag(_) => Self::not_found("template_tag_not_found", message),
            ResolveError::NoAccess(_) => {
                Self::new(StatusCode::FORBIDDEN, "template_forbidden", message)
            }
            ResolveError::NotReady(_) => {
                Self::unavailable("template_not_ready", message).retry(Retry::After(5))
            }
            ResolveError::Failed(_) => {
                tracing::error!(error = %Chain(&error), "templates cannot be read");
                Self::internal("the server cannot read its templates")
            }
        }
    }
}

impl From<TemplateError> for ApiError {
    fn from(error: TemplateError) -> Self {
        match error {
            TemplateError::Resolve(error) => error.into(),
            TemplateError::Record(error) => error.into(),
        }
    }
}

impl From<ReferenceError> for ApiError {
    fn from(error: ReferenceError) -> Self {
        Self::bad_request("invalid_template", format!("Invalid template: {error}"))
    }
}

impl From<CreateError> for ApiError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Blocked(error) => error.into(),
            CreateError::Template(error) => error.into(),
            CreateError::Idempotency(error) => error.into(),
            CreateError::Record(error) => error.into(),
            CreateError::Node(error) => error.into(),
            CreateError::QuotaReached(error) => error.into(),
            CreateError::Mounts(error) => error.into(),
            CreateError::Unsupported(_) => {
                Self::not_implemented("pausing a sandbox when its time is over")
            }
            CreateError::Late(_) => {
                tracing::error!(error = %Chain(&error), "sandbox creation timed out");
                Self::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    "sandbox_placement_timeout",
                    "the sandbox did not come up in time",
                )
                .retry(Retry::Never)
            }
            CreateError::BrokeOff => {
                tracing::error!(error = %Chain(&error), "sandbox creation was interrupted");
                Self::internal("the sandbox could not be started")
            }
        }
    }
}

impl From<QuotaReached> for ApiError {
    fn from(QuotaReached { limit }: QuotaReached) -> Self {
        // Waiting does not help until somebody ends a sandbox, and only the caller knows when
        // that is.
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_sandboxes",
            format!(
                "you have reached the limit of {limit} running sandboxes; kill one, or ask the \
                 operator for more"
            ),
        )
        .retry(Retry::Never)
    }
}

impl From<ChangeError> for ApiError {
    fn from(error: ChangeError) -> Self {
        match &error {
            ChangeError::Blocked(blocked) => blocked.clone().into(),
            ChangeError::NotFound(not_found) => not_found.clone().into(),
            ChangeError::QuotaReached(reached) => (*reached).into(),
            ChangeError::Conflict {
                id,
                phase: Phase::Stopping | Phase::Stuck,
            } => {
                let message = format!("Sandbox \"{id}\" is being killed");
                Self::new(StatusCode::CONFLICT, "sandbox_changing", message)
            }
            ChangeError::Conflict { id, phase } => {
                let state = render::state_name(*phase);
                let message = format!("Sandbox '{id}' cannot do that while in '{state}' state");
                Self::new(StatusCode::CONFLICT, "sandbox_conflict", message)
            }
            ChangeError::Node(TransitionError::Unsupported(unsupported)) => {
                Self::not_implemented(unsupported.0.as_str())
            }
            ChangeError::UnknownToken(unknown) => {
                Self::bad_request("validation_error", unknown.to_string())
            }
            ChangeError::StartInFlight(id) => Self::new(
                StatusCode::CONFLICT,
                "sandbox_start_in_flight",
                format!("Sandbox '{id}' is being resumed with its memory; try again when it runs"),
            ),
            ChangeError::Unsettled(id) => Self::new(
                StatusCode::CONFLICT,
                "sandbox_changing",
                format!("Sandbox '{id}' is still transitioning; try again in a moment"),
            )
            .retry(Retry::After(1)),
            ChangeError::LostVolumes { id, volumes } => {
                tracing::error!(error = %Chain(&error), ?volumes, "sandbox was not resumed");
                Self::lost_volumes(id, volumes)
            }
            ChangeError::BrokeOff => {
                tracing::error!(error = %Chain(&error), "a change of a sandbox was interrupted");
                Self::internal("the sandbox could not be changed")
            }
            // Waiting does not bring the agent back.
            ChangeError::Node(TransitionError::AgentSilent) => Self::unavailable(
                "sandbox_agent_unresponsive",
                "the agent of the sandbox does not answer, so it was not paused; it runs on",
            )
            .retry(Retry::Never),
            ChangeError::Node(TransitionError::AgentWasSilent) => Self::new(
                StatusCode::CONFLICT,
                "sandbox_snapshot_guest_agent_unresponsive",
                "the agent of the sandbox did not answer when it was paused; start the sandbox \
                 anew on its files (memory: false)",
            ),
            ChangeError::Node(TransitionError::NoRoom(resource)) => {
                NodeCreateError::NoRoom(*resource).into()
            }
            ChangeError::Node(TransitionError::Unwritable(obstacle)) => {
                Self::unwritable(StatusCode::CONFLICT, *obstacle)
            }
            // The sandbox is as it was, and clients may ask again.
            ChangeError::Node(
                TransitionError::NotHere(_)
                | TransitionError::Refused(_)
                | TransitionError::Failed(_),
            ) => {
                tracing::error!(error = %Chain(&error), "sandbox was not changed");
                let message = "the sandbox could not be changed; it is as it was, try again";
                Self::unavailable("sandbox_change_failed", message).retry(Retry::After(1))
            }
        }
    }
}

impl From<SnapshotError> for ApiError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::Change(ChangeError::Conflict { id, phase }) => {
                let state = render::state_name(phase);
                let message =
                    format!("Sandbox '{id}' cannot be snapshotted while in '{state}' state");
                Self::new(StatusCode::CONFLICT, "sandbox_conflict", message)
            }
            SnapshotError::Change(ChangeError::Node(TransitionError::Unsupported(
                Unsupported(Capability::Checkpoint),
            ))) => Self::not_implemented(
                "keeping the memory of a sandbox in an image (`memory: false` keeps its files)",
            ),
            SnapshotError::Change(error) => error.into(),
            SnapshotError::Template(error) => error.into(),
            SnapshotError::Record(error) => error.into(),
            SnapshotError::TooMany { limit } => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_snapshots",
                format!("you keep {limit} snapshots, as many as you may; delete one first"),
            )
            .retry(Retry::Never),
            SnapshotError::HasVolumes => Self::bad_request(
                "snapshot_with_volumes",
                "a snapshot with memory cannot be taken of a sandbox with volumes, because its \
                 processes may have files of theirs open; ask for one without memory \
                 (memory=false), or fork the sandbox",
            ),
            SnapshotError::NoSnapshot(reference) => Self::not_found(
                "snapshot_not_found",
                format!("snapshot '{reference}' not found"),
            ),
            SnapshotError::BrokeOff => {
                tracing::error!("a copy of a sandbox was interrupted");
                Self::internal("the sandbox could not be copied")
            }
        }
    }
}

impl From<NodeCreateError> for ApiError {
    fn from(error: NodeCreateError) -> Self {
        match &error {
            // Counted by whoever refuses it; callers could fill the log with it.
            NodeCreateError::NoRoom(resource) => {
                let lacking = match resource {
                    HostResource::Memory => "memory",
                    HostResource::Disk | HostResource::Inodes => "disk space",
                    HostResource::Processes => "room for processes",
                    HostResource::OpenFiles | HostResource::Cgroups | HostResource::Slots => {
                        "places for sandboxes"
                    }
                };
                let message = format!(
                    "the server is short of {lacking} and takes no more sandboxes now; kill some \
                     that you do not need, or try again later"
                );
                Self::unavailable("sandbox_capacity_unavailable", message).retry(NO_ROOM)
            }
            NodeCreateError::Failed(_) => {
                tracing::error!(error = %Chain(&error), "sandbox failed to start");
                Self::unavailable(
                    "sandbox_create_failed",
                    "the sandbox did not come up; try again",
                )
                .retry(Retry::After(1))
            }
            NodeCreateError::Refused(_) => {
                tracing::error!(error = %Chain(&error), "sandbox cannot be started");
                Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "sandbox_create_refused",
                    "the sandbox could not be started; the operator finds the reason in the log",
                )
            }
            NodeCreateError::StartCommand(_) => {
                Self::bad_request("start_command_failed", error.to_string())
            }
            NodeCreateError::Mounts(mounts) => mounts.clone().into(),
            NodeCreateError::Stopping => {
                Self::unavailable("server_stopping", "the server is about to stop")
                    .retry(Retry::After(2))
            }
        }
    }
}

impl From<IdempotencyError> for ApiError {
    fn from(error: IdempotencyError) -> Self {
        let message = error.to_string();
        match error {
            IdempotencyError::InProgress => {
                Self::new(StatusCode::CONFLICT, "idempotency_in_progress", message)
                    .retry(Retry::After(1))
            }
            IdempotencyError::Mismatch => Self::new(
                StatusCode::CONFLICT,
                "idempotency_request_mismatch",
                message,
            )
            .retry(Retry::Never),
            IdempotencyError::OutcomeUnknown => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_outcome_unknown",
                message,
            )
            .retry(Retry::Never),
        }
    }
}

impl From<IdempotencyKeyError> for ApiError {
    fn from(error: IdempotencyKeyError) -> Self {
        Self::validation(error)
    }
}

impl From<LifetimeError> for ApiError {
    fn from(error: LifetimeError) -> Self {
        let message = match error {
            LifetimeError::NotPositive => "Timeout must be greater than 0".to_owned(),
            LifetimeError::TooLong { max } => {
                format!("Timeout cannot be greater than {}", in_words(max))
            }
        };
        Self::bad_request("invalid_timeout", message)
    }
}

fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds >= 3600 && seconds.is_multiple_of(3600) => {
            format!("{} hours", seconds / 3600)
        }
        seconds => format!("{seconds} seconds"),
    }
}

impl From<SandboxNotFound> for ApiError {
    fn from(SandboxNotFound(id): SandboxNotFound) -> Self {
        Self::sandbox_not_found(id)
    }
}

impl From<StopError> for ApiError {
    fn from(error: StopError) -> Self {
        match error {
            StopError::NotFound(error) => error.into(),
            StopError::Node(_) => {
                tracing::error!(error = %Chain(&error), "sandbox could not be killed");
                let message = "the sandbox is out of reach, but something of it could not be removed; the server keeps trying";
                // Asking again at once waits as long for the same answer.
                Self::unavailable("sandbox_stuck", message).retry(Retry::Never)
            }
        }
    }
}

impl From<DeadlineError> for ApiError {
    fn from(error: DeadlineError) -> Self {
        let conflict = |message| Self::new(StatusCode::CONFLICT, "sandbox_changing", message);
        match error {
            DeadlineError::Blocked(error) => error.into(),
            DeadlineError::NotFound(id) => Self::sandbox_not_found(id),
            DeadlineError::Stopping(id) => conflict(format!("Sandbox \"{id}\" is being killed")),
            DeadlineError::Changing(id) => {
                conflict(format!("Sandbox \"{id}\" is being paused or resumed"))
            }
            // Clients that look for a running sandbox find none.
            DeadlineError::Paused(id) => Self::not_found(
                "sandbox_not_found",
                format!("Sandbox \"{id}\" is paused; resume it first"),
            ),
            DeadlineError::Exhausted => {
                Self::bad_request("max_length_exceeded", "Max instance length exceeded")
            }
        }
    }
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::NotFound | KeyError::NotYours | KeyError::Revoked => {
                Self::not_found("key_not_found", "id not found")
            }
            KeyError::TooMany { limit } => Self::new(
                StatusCode::CONFLICT,
                "too_many_keys",
                format!("the team has {limit} API keys, as many as it may; revoke one first"),
            ),
            KeyError::Record(error) => error.into(),
        }
    }
}

impl From<CursorError> for ApiError {
    fn from(_error: CursorError) -> Self {
        Self::bad_request("invalid_next_token", "Invalid next token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: impl Into<ApiError>, status: u16, code: &str, message: &str, retry: Retry) {
        let error = error.into();
        assert_eq!((error.status.as_u16(), error.code), (status, code));
        assert_eq!((error.message.as_str(), error.retry), (message, retry));
    }

    #[test]
    fn what_may_pass_by_itself_is_worth_another_try() {
        let busy = StoreError::Busy {
            operation: "record a sandbox",
        };
        let message = "the server is busy; try again in a moment";
        check(busy, 503, "record_busy", message, Retry::After(1));
        let reference = "base".parse().unwrap();
        let message = "template 'base' is not ready yet";
        let not_ready = ResolveError::NotReady(reference);
        check(
            not_ready,
            503,
            "template_not_ready",
            message,
            Retry::After(5),
        );
    }

    #[test]
    fn what_may_have_happened_is_not_tried_again() {
        let late = CreateError::Late(Duration::from_secs(55));
        let message = "the sandbox did not come up in time";
        check(
            late,
            504,
            "sandbox_placement_timeout",
            message,
            Retry::Never,
        );
    }

    #[test]
    fn the_callers_sentence_says_nothing_of_the_servers_inside() {
        let secret = || "/var/lib/skep/templates is unreadable".into();
        let message = "the server cannot read its templates";
        let failed = ResolveError::Failed(secret());
        check(failed, 500, "internal_server_error", message, Retry::Unsaid);
        let message = "the sandbox is out of reach, but something of it could not be removed; the server keeps trying";
        let stuck = StopError::Node(skep_types::KillError::Stuck);
        check(stuck, 503, "sandbox_stuck", message, Retry::Never);
        let message = "the sandbox could not be started";
        check(
            CreateError::BrokeOff,
            500,
            "internal_server_error",
            message,
            Retry::Unsaid,
        );
    }

    #[test]
    fn a_limit_that_is_no_number_of_hours_is_told_in_seconds() {
        assert_eq!(in_words(Duration::from_hours(24)), "24 hours");
        assert_eq!(in_words(Duration::from_secs(5400)), "5400 seconds");
        assert_eq!(in_words(Duration::ZERO), "0 seconds");
    }
}
