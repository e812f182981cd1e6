//! Steps through the real launcher, on top of the real `base`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use skep_image::{
    BuildError, BuildEvent, Builder, Cancel, LaunchRunner, Progress, RecipeSource, StepError,
    StepLaunch, StepRunner, Surroundings,
};
use skep_types::TemplateImage;

use crate::base::{base_layers, launcher};
use crate::workshop::{Told, Workshop};

crate::tests! {
    a_step_runs_as_whom_and_where_the_steps_before_said,
    files_are_copied_with_owner_and_mode,
    what_package_clients_leave_behind_is_in_no_layer,
    a_folder_that_was_made_anew_hides_the_old_one_from_any_mount,
    a_failing_command_fails_the_step_with_its_code,
    a_cancelled_step_ends_at_once,
}

/// Runs steps as if the layers of `base` were below the template's own.
struct OnBase(LaunchRunner);

impl StepRunner for OnBase {
    fn run(&self, launch: &StepLaunch, surroundings: Surroundings<'_>) -> Result<(), StepError> {
        let mut launch = launch.clone();
        launch.layers.splice(..0, base_layers());
        self.0.run(&launch, surroundings)
    }
}

/// Builds a template of these steps, with one file beside the recipe.
fn build(
    workshop: &Workshop,
    steps: &str,
    progress: &mut dyn Progress,
) -> Result<TemplateImage, BuildError> {
    let text = format!("name = \"x\"\ndescription = \"y\"\n[from]\ndebian = \"trixie\"\n{steps}");
    let source = RecipeSource {
        text: text.into(),
        files: BTreeMap::from([("greeting".to_owned(), b"hello".as_slice().into())]),
    };
    let builder = Builder {
        catalog: &workshop.catalog,
        bootstrap: &workshop.bootstrap,
        runner: &OnBase(launcher()),
        host: &workshop.host,
        cancel: &workshop.cancel,
    };
    builder.build(&BTreeMap::from([("x".to_owned(), source)]), "x", progress)
}

/// The last layer of a template of these steps, read by `look`.
fn check<T>(steps: &str, look: impl FnOnce(&std::path::Path) -> T) -> T {
    let workshop = Workshop::new();
    let mut told = Told::default();
    let image = build(&workshop, steps, &mut told)
        .unwrap_or_else(|error| panic!("{error:?}\n{}", told.0.join("\n")));
    look(workshop.catalog.layer_paths(&image).last().unwrap())
}

fn a_step_runs_as_whom_and_where_the_steps_before_said() {
    let steps = r#"
        [[step]]
        env = { COLOUR = "light blue" }
        [[step]]
        user = "user"
        [[step]]
        workdir = "/code"
        [[step]]
        run = "echo $(whoami) $HOME $COLOUR > here"
        [[step]]
        run = "echo $(whoami) $HOME $COLOUR >> here"
        as = "root"
    "#;
    check(steps, |layer| {
        let file = layer.join("code/here");
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            "user /home/user light blue\nroot /root light blue\n"
        );
        assert_eq!(fs::metadata(&file).unwrap().uid(), 1000);
    });
}

fn files_are_copied_with_owner_and_mode() {
    let steps = r#"
        [[step]]
        copy = "greeting"
        to = "/bin/new folder/greeting"
        owner = "user:user"
        mode = "0750"
    "#;
    check(steps, |layer| {
        // `/bin` is a link in the layer below and must stay one.
        let file = layer.join("usr/bin/new folder/greeting");
        let metadata = fs::metadata(&file).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"hello");
        assert_eq!(
            (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777),
            (1000, 1000, 0o750)
        );
        assert!(!layer.join("bin").exists());
    });
}

fn what_package_clients_leave_behind_is_in_no_layer() {
    let steps = r#"
        [[step]]
        run = """
        touch /tmp/a /var/tmp/b /var/cache/apt/c /var/lib/apt/lists/d /run/e /dev/shm/f
        getent hosts localhost
        echo done > /opt/done
        """
    "#;
    check(steps, |layer| {
        let names: Vec<_> = fs::read_dir(layer)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["opt"]);
    });
}

fn a_folder_that_was_made_anew_hides_the_old_one_from_any_mount() {
    let steps = r#"
        [[step]]
        run = "rm -r /etc/apt && mkdir /etc/apt"
    "#;
    check(steps, |layer| {
        let mut value = [0; 8];
        for name in ["trusted.overlay.opaque", "user.overlay.opaque"] {
            let length = rustix::fs::lgetxattr(layer.join("etc/apt"), name, &mut value).unwrap();
            assert_eq!(&value[..length], b"y", "{name}");
        }
    });
}

fn a_failing_command_fails_the_step_with_its_code() {
    let steps = r#"
        [[step]]
        run = """
        echo before
        (exit 7) | cat
        echo not reached
        """
    "#;
    let workshop = Workshop::new();
    let mut told = Told::default();
    let error = build(&workshop, steps, &mut told).unwrap_err();
    let BuildError::Step { source, log, .. } = error else {
        panic!("{error:?}");
    };
    assert!(
        matches!(&source, StepError::Failed(how) if how == "exit code 7"),
        "{source:?}"
    );
    assert_eq!(fs::read_to_string(log).unwrap(), "before\n");
    assert_eq!(workshop.names("layers").len(), 1);
}

/// Cancels as soon as the step prints something.
struct CancelAtOutput(Cancel);

impl Progress for CancelAtOutput {
    fn event(&mut self, event: BuildEvent<'_>) {
        if matches!(event, BuildEvent::Output { line: "ready" }) {
            self.0.cancel();
        }
    }
}

fn a_cancelled_step_ends_at_once() {
    let steps = r#"
        [[step]]
        run = "echo ready; sleep 987654321 & setsid sleep 987654321"
    "#;
    let workshop = Workshop::new();
    let mut progress = CancelAtOutput(workshop.cancel.clone());
    let error = build(&workshop, steps, &mut progress).unwrap_err();
    assert!(error.is_cancelled(), "{error:?}");
    assert!(workshop.names("building").is_empty());
    let sleeping = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let command = fs::read(entry.unwrap().path().join("cmdline")).ok()?;
        command.starts_with(b"sleep\x00987654321").then_some(())
    });
    assert_eq!(sleeping.count(), 0);
}
