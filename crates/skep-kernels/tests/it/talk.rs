//! Asking contexts for things, and putting what comes back into words.

use std::sync::Arc;
use std::time::Duration;

use skep_jupyter::{JsonText, Output};
use skep_kernels::fake::{FakeKernels, FakeSettings};
use skep_kernels::{Contexts, ExecuteRequest, Execution, Update};

/// Contexts over fake kernels.
pub(crate) struct World {
    pub(crate) kernels: Arc<FakeKernels>,
    pub(crate) settings: Arc<FakeSettings>,
    pub(crate) contexts: Contexts,
    /// The default context.
    pub(crate) python: String,
}

pub(crate) fn world() -> World {
    let kernels = Arc::new(FakeKernels::default());
    let settings = Arc::new(FakeSettings::default());
    let launcher = Arc::new(Arc::clone(&kernels));
    let contexts = Contexts::new(launcher, Arc::clone(&settings) as _, &["python"]);
    let python = contexts.default_of("python").unwrap();
    World {
        kernels,
        settings,
        contexts,
        python,
    }
}

impl World {
    /// Queues an execution in the default context.
    pub(crate) fn execute(&self, request: ExecuteRequest) -> Execution {
        self.contexts.execute(&self.python, request).unwrap()
    }

    /// Runs code in the default context, and answers everything it said, in words.
    pub(crate) async fn run(&self, code: &str) -> Vec<String> {
        run(&self.contexts, &self.python, code).await
    }
}

pub(crate) fn request(code: &str) -> ExecuteRequest {
    ExecuteRequest::new(code)
}

/// The next update, in words.
pub(crate) async fn next(execution: &mut Execution) -> Option<String> {
    let update = tokio::time::timeout(Duration::from_secs(30), execution.updates.recv());
    update
        .await
        .expect("an update comes in time")
        .map(|update| word(&update))
}

/// All updates, in words.
pub(crate) async fn all(mut execution: Execution) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(word) = next(&mut execution).await {
        words.push(word);
    }
    words
}

/// Runs code to its end.
pub(crate) async fn run(contexts: &Contexts, id: &str, code: &str) -> Vec<String> {
    all(contexts.execute(id, request(code)).unwrap()).await
}

fn word(update: &Update) -> String {
    match update {
        Update::StateLost(loss) => format!("lost {loss:?}"),
        Update::OutputLost { bytes } => format!("lost {bytes} bytes"),
        Update::Failed(failure) => format!("failed {failure:?}"),
        Update::Ended(receipt) => format!("ended {:?}", receipt.outcome),
        Update::Output { output, .. } => match output {
            Output::Accepted { count } => format!("accepted {count}"),
            Output::Text { text, .. } => text.decode().unwrap().trim_end().to_owned(),
            Output::Rich { bundle, .. } => {
                let value = bundle
                    .entries
                    .first()
                    .map(|(_, value)| JsonText::as_str(value));
                format!("value {}", value.unwrap_or_default())
            }
            Output::Updated(_) => "updated".to_owned(),
            Output::Cleared { .. } => "cleared".to_owned(),
            Output::InputRequested(request) => format!("asked {}", request.prompt),
            Output::Raised(raised) => format!("raised {}", raised.name),
            Output::TooLarge { bytes } => format!("too large {bytes}"),
            Output::Ended { .. } => "ended twice".to_owned(),
        },
    }
}
