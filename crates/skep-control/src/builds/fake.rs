//! Builds that a test carries out by hand.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_types::{
    BuildBase, BuildContext, BuildFailure, BuildId, BuildLogEntry, BuildOrder, BuildPhase,
    BuiltTemplate, LayerKey, LogLevel, Sharing, TemplateImage,
};

use super::{BuildReports, Builds, CollectError};

/// Builder that builds nothing: it keeps its orders until a test says what becomes of them. Clones
/// are the same.
#[derive(Debug, Clone, Default)]
pub struct FakeBuilds {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    orders: Vec<(BuildOrder, Arc<dyn BuildReports>)>,
    cancelled: Vec<BuildId>,
}

impl FakeBuilds {
    /// The orders that were ever given, the oldest first.
    pub fn orders(&self) -> Vec<BuildOrder> {
        let state = self.state.lock();
        state
            .orders
            .iter()
            .map(|(order, _)| order.clone())
            .collect()
    }

    /// The builds that were to be ended.
    pub fn cancelled(&self) -> Vec<BuildId> {
        self.state.lock().cancelled.clone()
    }

    /// Logs a line of the last order's first step.
    pub fn log(&self, level: LogLevel, message: &str) {
        let (order, reports) = self.last();
        let entry = BuildLogEntry {
            level,
            phase: Some(BuildPhase::Step(1)),
            message: message.to_owned(),
        };
        reports.log(order.build, entry);
    }

    /// Ends the last order well.
    pub fn succeed(&self) {
        let (order, reports) = self.last();
        reports.end(order.build, Ok(built(&order)));
    }

    /// Ends the last order badly.
    pub fn fail(&self, phase: Option<BuildPhase>, message: &str) {
        let (order, reports) = self.last();
        let failure = BuildFailure {
            phase,
            message: message.to_owned(),
        };
        reports.end(order.build, Err(failure));
    }

    fn last(&self) -> (BuildOrder, Arc<dyn BuildReports>) {
        let state = self.state.lock();
        let (order, reports) = state.orders.last().expect("a build was started");
        (order.clone(), Arc::clone(reports))
    }
}

impl Builds for FakeBuilds {
    fn start(&self, order: BuildOrder, reports: Arc<dyn BuildReports>) {
        self.state.lock().orders.push((order, reports));
    }

    fn cancel(&self, build: BuildId) {
        self.state.lock().cancelled.push(build);
    }

    fn collect(
        &self,
        _needed: HashSet<LayerKey>,
        _before: SystemTime,
    ) -> BoxFuture<'_, Result<u64, CollectError>> {
        // It has made no layers.
        std::future::ready(Ok(0)).boxed()
    }
}

/// An image without layers, with a name of its own and the context that it began with.
fn built(order: &BuildOrder) -> BuiltTemplate {
    let context = match &order.base {
        BuildBase::Template { context, .. } => context.clone(),
        BuildBase::Image { .. } => BuildContext {
            user: "user".to_owned(),
            work_directory: None,
            environment: Default::default(),
        },
    };
    BuiltTemplate {
        image: TemplateImage {
            id: order.template.clone(),
            name: "built".to_owned(),
            layers: Vec::new(),
            env: Vec::new(),
            user: context.user.clone(),
            workdir: context.work_directory.clone(),
            resources: order.resources,
            sharing: Sharing::WithinTeam,
            start: None,
        },
        context,
        size: 4096,
    }
}
