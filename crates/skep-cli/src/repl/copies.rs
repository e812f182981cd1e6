//! `:fork`, `:checkpoint`, `:back` and `:context`: more than one state of the variables.

use skep_client::Contexts;

use super::Repl;
use crate::CliError;
use crate::code::Language;

impl Repl<'_> {
    /// Goes on in a copy of the context.
    pub(super) async fn fork(&mut self) -> Result<(), CliError> {
        let (contexts, origin) = self.present().await?;
        let copy = contexts.fork(&origin).await?.id;
        self.painter.note(&format!(
            "a copy from here on; :context {origin} goes back to the original"
        ))?;
        self.go_on_in(copy);
        Ok(())
    }

    /// Goes on in another context of the sandbox.
    pub(super) async fn change_context(&mut self, id: &str) -> Result<(), CliError> {
        let all = self.session.sandbox().contexts().list().await?;
        let Some(found) = all.into_iter().find(|context| context.id == id) else {
            return self.painter.note(&format!("there is no context {id}"));
        };
        self.language = Language::named(&found.language);
        let title = self.language.title().to_owned();
        self.painter
            .note(&format!("{title} of context {id} from here on"))?;
        self.go_on_in(found.id);
        Ok(())
    }

    pub(super) async fn checkpoint(&mut self) -> Result<(), CliError> {
        let (contexts, id) = self.present().await?;
        let made = contexts.checkpoint(&id).await?.id;
        self.painter
            .note(&format!("checkpoint {made}; :back {made} goes back to it"))
    }

    /// Goes back to a checkpoint: without a name to the one before the present state, or the newest.
    pub(super) async fn go_back(&mut self, checkpoint: Option<String>) -> Result<(), CliError> {
        let (contexts, id) = self.present().await?;
        let checkpoint = match checkpoint {
            Some(checkpoint) => checkpoint,
            None => {
                let mut all = contexts.checkpoints(&id).await?;
                let current = all.iter().position(|checkpoint| checkpoint.current);
                let Some(place) = current.or_else(|| all.len().checked_sub(1)) else {
                    return self
                        .painter
                        .note("there is no checkpoint; :checkpoint makes one");
                };
                all.swap_remove(place).id
            }
        };
        contexts.roll_back(&id, &checkpoint).await?;
        self.painter
            .note(&format!("back at checkpoint {checkpoint}"))
    }

    /// The context that code runs in, which is made if there is none.
    async fn present(&mut self) -> Result<(Contexts, String), CliError> {
        let contexts = self.session.sandbox().contexts();
        if let Some(id) = self.context_id().await? {
            return Ok((contexts, id));
        }
        let options = skep_wire::interpreter::ContextOptions::default();
        let name = self.language.name();
        let made = contexts
            .create(name, Some(&self.directory), &options)
            .await?
            .id;
        self.go_on_in(made.clone());
        Ok((contexts, made))
    }

    fn go_on_in(&mut self, context: String) {
        self.context = Some(context);
        self.asked = None;
    }
}
