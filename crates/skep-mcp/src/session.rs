//! The sandboxes of one session.

mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use skep_client::{Client, ClientError, ListedSandbox, Network, NewSandbox, Sandbox};
use skep_telemetry::Chain;
use tokio::sync::Mutex;

use crate::failure::Failure;
use crate::settings::{Settings, Usual};
use turn::TURNS;

/// Key of the metadata in which a sandbox has its name.
pub(crate) const NAME_KEY: &str = "skep.mcp.name";
/// Longest name of a sandbox, in bytes.
const LONGEST_NAME: usize = 64;
/// Number of unnamed sandboxes that a session starts beside its usual one.
const MOST_STARTED: usize = 16;
/// Time limit for the end of a sandbox, before it is left to its lifetime.
const FAREWELL: Duration = Duration::from_secs(15);

/// One client's use of this server: its usual sandbox, and those that it started.
#[derive(Debug)]
pub(crate) struct Session {
    settings: Arc<Settings>,
    /// Team of the client; empty if this server has no other.
    team: Arc<str>,
    made: Mutex<SessionSandboxes>,
}

/// Sandboxes that end with the session.
#[derive(Debug, Default)]
struct SessionSandboxes {
    usual: Option<Sandbox>,
    started: Vec<Sandbox>,
}

/// A sandbox to work in.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) sandbox: Sandbox,
    /// Remark for the caller, if there is any.
    pub(crate) note: Option<String>,
}

/// A sandbox that a model asks for.
#[derive(Debug, Default)]
pub(crate) struct SandboxRequest {
    pub(crate) name: Option<String>,
    pub(crate) template: Option<String>,
    pub(crate) lifetime: Option<Duration>,
    pub(crate) internet: Option<bool>,
}

impl Session {
    pub(crate) fn new(settings: Arc<Settings>, team: Arc<str>) -> Self {
        Self {
            settings,
            team,
            made: Mutex::default(),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The sandbox that a call names, or the usual one, which is made if there is none. It lives
    /// for another lifetime from now on.
    pub(crate) async fn sandbox(
        &self,
        client: &Client,
        wanted: Option<&str>,
    ) -> Result<Found, Failure> {
        match (wanted, &self.settings.usual) {
            (Some(wanted), _) => self.named_or_id(client, wanted).await,
            (None, Usual::Given(id)) => self.named_or_id(client, id).await,
            (None, Usual::Named(name)) => self.usual_named(client, name).await,
            (None, Usual::OfSession) => self.usual_own(client).await,
        }
    }

    /// The usual sandbox if there is one already, without making it or letting it live longer.
    pub(crate) async fn existing(&self, client: &Client) -> Result<Option<Sandbox>, Failure> {
        match &self.settings.usual {
            Usual::Given(id) => Ok(Some(client.sandbox(id))),
            Usual::Named(name) => find(client, name).await,
            Usual::OfSession => {
                let made = self.made.lock().await;
                Ok(made.usual.as_ref().map(|sandbox| sandbox.through(client)))
            }
        }
    }

    /// Starts a sandbox, or takes up the one that has the name already.
    pub(crate) async fn start(
        &self,
        client: &Client,
        order: SandboxRequest,
    ) -> Result<Found, Failure> {
        if let Some(name) = &order.name {
            check_name(name)?;
            let _turn = TURNS.take(&self.team, name).await;
            if let Some(sandbox) = find(client, name).await? {
                self.wake(&sandbox).await?;
                let note =
                    format!("sandbox `{name}` was there already, with its files and variables");
                return Ok(Found {
                    sandbox,
                    note: Some(note),
                });
            }
            let sandbox = self.create(client, &order).await?;
            return Ok(Found {
                sandbox,
                note: None,
            });
        }
        let mut made = self.made.lock().await;
        if made.started.len() >= MOST_STARTED {
            return Err(Failure::new(
                format!("this session has started {MOST_STARTED} sandboxes"),
                "Stop one of them with stop_sandbox first.",
            ));
        }
        let sandbox = self.create(client, &order).await?;
        // A client without a session has nothing that it could end with but its lifetime.
        if self.settings.usual == Usual::OfSession {
            made.started.push(sandbox.clone());
        }
        Ok(Found {
            sandbox,
            note: None,
        })
    }

    /// Ends a sandbox, the usual one if none is named; returns its ID.
    pub(crate) async fn stop(
        &self,
        client: &Client,
        wanted: Option<&str>,
    ) -> Result<String, Failure> {
        let sandbox = match wanted {
            Some(wanted) => look_up(client, wanted).await?,
            None => self.existing(client).await?.ok_or_else(|| {
                Failure::new(
                    "there is no sandbox to stop",
                    "list_sandboxes says which there are.",
                )
            })?,
        };
        sandbox.kill().await.map_err(Failure::from)?;
        let id = sandbox.id().to_owned();
        let mut made = self.made.lock().await;
        made.usual.take_if(|usual| usual.id() == id);
        made.started.retain(|started| started.id() != id);
        Ok(id)
    }

    /// Ends the sandboxes that end with the session.
    pub(crate) async fn end(&self) {
        let made = std::mem::take(&mut *self.made.lock().await);
        end(made).await;
    }

    /// The sandbox of this session, or a new one in the place of one that has ended.
    async fn usual_own(&self, client: &Client) -> Result<Found, Failure> {
        let mut made = self.made.lock().await;
        let mut note = None;
        if let Some(usual) = &made.usual {
            let usual = usual.through(client);
            match usual.resume(Some(self.settings.lifetime)).await {
                Ok(_kept) => {
                    return Ok(Found {
                        sandbox: usual,
                        note: None,
                    });
                }
                Err(error) if error.is_not_found() => note = Some(replaced(&error)),
                Err(error) => return Err(error.into()),
            }
        }
        let sandbox = self.create(client, &SandboxRequest::default()).await?;
        made.usual = Some(sandbox.clone());
        Ok(Found { sandbox, note })
    }

    async fn usual_named(&self, client: &Client, name: &str) -> Result<Found, Failure> {
        let _turn = TURNS.take(&self.team, name).await;
        if let Some(sandbox) = find(client, name).await? {
            self.wake(&sandbox).await?;
            return Ok(Found {
                sandbox,
                note: None,
            });
        }
        let order = SandboxRequest {
            name: Some(name.to_owned()),
            ..SandboxRequest::default()
        };
        let sandbox = self.create(client, &order).await?;
        let note = format!("a new sandbox was made: there was none named `{name}`");
        Ok(Found {
            sandbox,
            note: Some(note),
        })
    }

    async fn named_or_id(&self, client: &Client, wanted: &str) -> Result<Found, Failure> {
        let sandbox = look_up(client, wanted).await?;
        self.wake(&sandbox)
            .await
            .map_err(|error| missing(error, wanted))?;
        Ok(Found {
            sandbox,
            note: None,
        })
    }

    async fn wake(&self, sandbox: &Sandbox) -> Result<(), ClientError> {
        sandbox.resume(Some(self.settings.lifetime)).await?;
        Ok(())
    }

    async fn create(&self, client: &Client, order: &SandboxRequest) -> Result<Sandbox, Failure> {
        let new = new_sandbox(&self.settings, order);
        let created = client.sandboxes().create(&new).await;
        created.map_err(|error| {
            let is_template = error.is_not_found();
            let failure = Failure::from(error);
            if is_template {
                return failure.advise("Leave `template` out, or name one that the server has.");
            }
            failure
        })
    }
}

impl Drop for Session {
    /// A session that was not ended lets go of its sandboxes all the same: clients just go away.
    fn drop(&mut self) {
        let made = std::mem::take(self.made.get_mut());
        let is_empty = made.usual.is_none() && made.started.is_empty();
        if !is_empty && tokio::runtime::Handle::try_current().is_ok() {
            drop(skep_telemetry::spawn(
                "end the sandboxes of a session",
                end(made),
            ));
        }
    }
}

/// The sandbox that a model asks for, within the settings.
fn new_sandbox(settings: &Settings, order: &SandboxRequest) -> NewSandbox {
    let lifetime = order.lifetime.unwrap_or(settings.lifetime);
    let does_without = order.internet == Some(false);
    let mut metadata = BTreeMap::from([("skep.mcp".to_owned(), "true".to_owned())]);
    if let Some(name) = &order.name {
        metadata.insert(NAME_KEY.to_owned(), name.clone());
    }
    let rules = Network {
        allow_out: listed(&settings.allow_out),
        deny_out: listed(&settings.deny_out),
        ..Network::default()
    };
    let has_rules = rules != Network::default();
    NewSandbox {
        template_id: order
            .template
            .clone()
            .unwrap_or_else(|| settings.template.clone()),
        timeout: i64::try_from(lifetime.as_secs()).ok(),
        allow_internet_access: (does_without || !settings.internet).then_some(false),
        // What is allowed is reached without the internet, too; who asks for none means none.
        network: (has_rules && !does_without).then_some(rules),
        metadata: Some(metadata),
        ..NewSandbox::default()
    }
}

fn listed(addresses: &[String]) -> Option<Vec<String>> {
    (!addresses.is_empty()).then(|| addresses.to_vec())
}

/// Checks the name that a model wants to give a sandbox.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.: ".contains(&byte);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(fits) {
        return Err(Failure::new(
            format!("`{name}` cannot be the name of a sandbox"),
            "Use up to 64 letters, digits, dashes, dots and underscores.",
        ));
    }
    Ok(())
}

async fn end(made: SessionSandboxes) {
    for sandbox in made.usual.into_iter().chain(made.started) {
        match tokio::time::timeout(FAREWELL, sandbox.kill()).await {
            Ok(Err(error)) if !error.is_not_found() => {
                tracing::debug!(error = %Chain(&error), "a sandbox is left to its lifetime");
            }
            Ok(_) => {}
            Err(_elapsed) => tracing::debug!("a sandbox is left to its lifetime"),
        }
    }
}

/// The sandbox of this name, or else with this ID. Both are looked for among the key's own.
async fn look_up(client: &Client, wanted: &str) -> Result<Sandbox, Failure> {
    if check_name(wanted).is_ok()
        && let Some(sandbox) = find(client, wanted).await?
    {
        return Ok(sandbox);
    }
    let found = client.sandboxes().get(wanted).await;
    found.map_err(|error| missing(error, wanted))
}

fn missing(error: ClientError, wanted: &str) -> Failure {
    if !error.is_not_found() {
        return error.into();
    }
    Failure::new(
        format!("there is no sandbox `{wanted}` any more: {}", Chain(&error)),
        "Leave `sandbox` out to work in the usual one, or start one with start_sandbox.",
    )
}

/// The newest sandbox with this name.
async fn find(client: &Client, name: &str) -> Result<Option<Sandbox>, Failure> {
    let named = client.sandboxes().with_metadata(NAME_KEY, name).await?;
    let newest = named
        .into_iter()
        .max_by_key(|listed: &ListedSandbox| listed.started_at);
    Ok(newest.map(|listed| client.sandbox(&listed.sandbox_id)))
}

fn replaced(error: &ClientError) -> String {
    format!(
        "the sandbox of this session is gone, with its files and variables ({}); this is a new one",
        Chain(error)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_asked_for_with_the_rules_of_the_settings_whatever_a_model_wants() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let settings = Settings {
            allow_out: texts(&["pypi.org"]),
            deny_out: texts(&["0.0.0.0/0"]),
            ..Settings::default()
        };
        let asked = |settings: &Settings, internet| {
            let order = SandboxRequest {
                internet,
                ..SandboxRequest::default()
            };
            let new = new_sandbox(settings, &order);
            (new.allow_internet_access, new.network)
        };
        let rules = Some(Network {
            allow_out: Some(texts(&["pypi.org"])),
            deny_out: Some(texts(&["0.0.0.0/0"])),
            ..Network::default()
        });
        assert_eq!(asked(&settings, None), (None, rules.clone()));
        assert_eq!(asked(&settings, Some(true)), (None, rules.clone()));
        assert_eq!(asked(&settings, Some(false)), (Some(false), None));
        let closed = Settings {
            internet: false,
            ..settings
        };
        assert_eq!(asked(&closed, Some(true)), (Some(false), rules));
        assert_eq!(asked(&Settings::default(), None), (None, None));
    }

    #[test]
    fn a_name_is_short_and_plain() {
        for name in ["a", "analysis-2.1", "claude code: x"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "a/b",
            "../x",
            "a&metadata=b",
            "ä",
            "x\n",
            &"a".repeat(65),
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
