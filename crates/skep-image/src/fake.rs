//! Builds without packages and namespaces, for tests of whatever is around them.

use std::fs;
use std::path::Path;

use parking_lot::Mutex;

use crate::recipe::DebianOrigin;
use crate::step::{Bootstrap, StepError, StepLaunch, StepRunner, Surroundings};
use skep_packages::PackageSettings;

/// A bootstrap that takes no time: the new system is one file with the names of its packages.
#[derive(Debug, Default)]
pub struct FakeBootstrap {
    /// The releases that were bootstrapped.
    done: Mutex<Vec<String>>,
}

impl FakeBootstrap {
    /// Releases that were bootstrapped, in order.
    pub fn done(&self) -> Vec<String> {
        self.done.lock().clone()
    }
}

impl Bootstrap for FakeBootstrap {
    fn version(&self) -> &'static str {
        "fake"
    }

    fn bootstrap(
        &self,
        origin: &DebianOrigin,
        _host: &PackageSettings,
        root: &Path,
        _scratch: &Path,
        surroundings: Surroundings<'_>,
    ) -> Result<(), StepError> {
        (surroundings.output)("bootstrapping");
        fs::write(root.join("packages"), origin.packages.join("\n"))
            .map_err(StepError::system("write the packages"))?;
        self.done.lock().push(origin.suite.clone());
        Ok(())
    }
}

/// Behaviour of a [`FakeRunner`] on a step.
type Script = Box<dyn Fn(&StepLaunch) -> Result<(), StepError> + Send + Sync>;

/// A runner that does not run the step's command but a function of the test.
pub struct FakeRunner {
    script: Script,
    /// The last argument of each command that was run.
    done: Mutex<Vec<String>>,
}

impl FakeRunner {
    /// A runner that does `script` for each step.
    pub fn new(
        script: impl Fn(&StepLaunch) -> Result<(), StepError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            script: Box::new(script),
            done: Mutex::default(),
        }
    }

    /// The last argument of each command that came to a good end, in order.
    pub fn done(&self) -> Vec<String> {
        self.done.lock().clone()
    }
}

impl std::fmt::Debug for FakeRunner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FakeRunner")
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl StepRunner for FakeRunner {
    fn run(&self, launch: &StepLaunch, surroundings: Surroundings<'_>) -> Result<(), StepError> {
        (surroundings.output)("running");
        (self.script)(launch)?;
        let last = launch.command.last().cloned().unwrap_or_default();
        self.done.lock().push(last);
        Ok(())
    }
}
