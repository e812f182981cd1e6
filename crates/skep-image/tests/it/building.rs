use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;
use skep_image::fake::FakeRunner;
use skep_image::{BuildError, BuildEvent, Progress, StepError};

use crate::workshop::{SMALL, Told, Workshop, recipes, write_done};

crate::tests! {
    a_template_has_a_layer_for_every_step_that_leaves_files,
    a_second_build_does_nothing,
    a_changed_step_is_done_again_with_all_that_follow,
    a_build_that_was_killed_goes_on_where_it_stopped,
    a_failing_step_is_named_and_its_output_kept,
    a_cancelled_build_says_so_and_can_be_taken_up,
    two_builders_make_each_layer_once_and_the_waiting_one_says_so,
    a_template_based_on_another_has_its_layers_and_settings,
    a_template_without_a_recipe_and_one_based_on_itself_are_refused,
}

fn a_template_has_a_layer_for_every_step_that_leaves_files() {
    let workshop = Workshop::new();
    let (image, told) = workshop.build(&recipes([("small", SMALL)]), "small");
    let image = image.unwrap();
    assert_eq!(image.layers.len(), 3);
    let layers = workshop.catalog.layer_paths(&image);
    assert!(layers[0].join("packages").exists());
    assert!(layers[2].join("done").exists());
    assert_eq!(image.env, [("COLOUR".to_owned(), "blue".to_owned())]);
    assert_eq!((image.user.as_str(), image.workdir.clone()), ("user", None));
    assert_eq!(
        told.0,
        [
            "planned small 3",
            "started 1",
            "output bootstrapping",
            "finished 1",
            "started 2",
            "output running",
            "finished 2",
            "started 3",
            "output running",
            "finished 3",
            "ready small",
        ]
    );
    assert_eq!(workshop.catalog.find("small").unwrap(), Some(image.clone()));
    assert_eq!(
        workshop.catalog.find(image.id.as_str()).unwrap(),
        Some(image)
    );
    assert_eq!(workshop.catalog.find("../small").unwrap(), None);
}

fn a_second_build_does_nothing() {
    let workshop = Workshop::new();
    let recipes = recipes([("small", SMALL)]);
    let first = workshop.build(&recipes, "small").0.unwrap();
    let again = workshop.beside();
    let (second, told) = again.build(&recipes, "small");
    assert_eq!(second.unwrap(), first);
    assert_eq!(
        told.0,
        [
            "planned small 3",
            "cached 1",
            "cached 2",
            "cached 3",
            "ready small"
        ]
    );
}

fn a_changed_step_is_done_again_with_all_that_follow() {
    let workshop = Workshop::new();
    let before = workshop
        .build(&recipes([("small", SMALL)]), "small")
        .0
        .unwrap();
    let changed = SMALL.replace("blue", "green");
    let (after, told) = workshop.build(&recipes([("small", &changed)]), "small");
    let after = after.unwrap();
    assert!(told.0.contains(&"cached 2".to_owned()), "{told:?}");
    assert!(told.0.contains(&"finished 3".to_owned()), "{told:?}");
    assert_eq!(after.layers[..2], before.layers[..2]);
    assert_ne!(after.layers[2], before.layers[2]);
    assert_ne!(after.id, before.id);
}

/// Work of the test executable as another process: builds until it is killed in the last step,
/// which it tells on its output.
pub(crate) fn build_until_killed(dir: &str) {
    let mut workshop = Workshop::in_dir(dir.into());
    workshop.runner = FakeRunner::new(|launch| {
        write_done(launch)?;
        if launch.command.last().map(String::as_str) == Some("second") {
            std::io::stdout().write_all(b"in the last step\n").unwrap();
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        Ok(())
    });
    workshop
        .build(&recipes([("small", SMALL)]), "small")
        .0
        .unwrap();
}

fn a_build_that_was_killed_goes_on_where_it_stopped() {
    let workshop = Workshop::new();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .arg("build-until-killed")
        .arg(workshop.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = process.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(line, "in the last step\n");
    assert_eq!(workshop.catalog.find("small").unwrap(), None);
    assert_eq!(workshop.names("layers").len(), 2);
    assert_eq!(workshop.names("building").len(), 1);

    let (image, _) = workshop.build(&recipes([("small", SMALL)]), "small");
    assert_eq!(image.unwrap().layers.len(), 3);
    assert!(workshop.bootstrap.done().is_empty());
    assert_eq!(workshop.runner.done(), ["second"]);
    assert!(workshop.names("building").is_empty());
}

fn a_failing_step_is_named_and_its_output_kept() {
    let mut workshop = Workshop::new();
    workshop.runner = FakeRunner::new(|_| Err(StepError::Failed("exit code 1".to_owned())));
    let (result, _) = workshop.build(&recipes([("small", SMALL)]), "small");
    let Err(BuildError::Step { step, log, .. }) = &result else {
        panic!("{result:?}");
    };
    assert_eq!(*step, 2);
    assert_eq!(std::fs::read_to_string(log).unwrap(), "running\n");
    assert!(workshop.names("building").is_empty());
}

fn a_cancelled_build_says_so_and_can_be_taken_up() {
    let workshop = Workshop::new();
    let recipes = recipes([("small", SMALL)]);
    workshop.cancel.cancel();
    let error = workshop.build(&recipes, "small").0.unwrap_err();
    assert!(error.is_cancelled(), "{error:?}");
    workshop.beside().build(&recipes, "small").0.unwrap();
}

/// Lets the other builder go on as soon as this one says that it waits.
struct Impatient {
    leave: SyncSender<()>,
    told: Told,
}

impl Progress for Impatient {
    fn event(&mut self, event: BuildEvent<'_>) {
        if matches!(event, BuildEvent::Waiting { .. }) {
            self.leave.send(()).unwrap();
        }
        self.told.event(event);
    }
}

fn two_builders_make_each_layer_once_and_the_waiting_one_says_so() {
    let mut first = Workshop::new();
    let second = first.beside();
    let recipes = recipes([("small", SMALL)]);
    let (entered, in_step) = sync_channel(1);
    let (leave, left) = sync_channel(1);
    let left = Mutex::new(left);
    first.runner = FakeRunner::new(move |launch| {
        if launch.command.last().map(String::as_str) == Some("first") {
            entered.send(()).unwrap();
            let deadline = Duration::from_secs(60);
            left.lock().recv_timeout(deadline).unwrap();
        }
        write_done(launch)
    });
    let mut progress = Impatient {
        leave,
        told: Told::default(),
    };
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| first.build(&recipes, "small").0.unwrap());
        in_step.recv_timeout(Duration::from_secs(60)).unwrap();
        let image = second.build_telling(&recipes, "small", &mut progress);
        assert_eq!(image.unwrap(), slow.join().unwrap());
    });
    assert_eq!(
        progress.told.0[..4],
        ["planned small 3", "cached 1", "waiting 2", "cached 2"]
    );
    assert!(second.bootstrap.done().is_empty());
    let mut done = [first.runner.done(), second.runner.done()].concat();
    done.sort();
    assert_eq!(done, ["first", "second"]);
}

fn a_template_based_on_another_has_its_layers_and_settings() {
    let child = r#"
        name = "child"
        description = "on top of small"
        [from]
        template = "small"
        [[step]]
        run = "third"
    "#;
    let workshop = Workshop::new();
    let all = recipes([("small", SMALL), ("child", child)]);
    let (image, told) = workshop.build(&all, "child");
    let image = image.unwrap();
    assert_eq!(image.layers.len(), 4);
    assert_eq!(image.user, "user");
    assert_eq!(workshop.runner.done().last().unwrap(), "third");
    assert!(told.0.contains(&"planned child 1".to_owned()), "{told:?}");
    let small = workshop.catalog.find("small").unwrap().unwrap();
    assert_eq!(image.layers[..3], small.layers);

    let only_child = recipes([("child", child)]);
    let (again, _) = workshop.build(&only_child, "child");
    assert_eq!(again.unwrap(), image);
}

fn a_template_without_a_recipe_and_one_based_on_itself_are_refused() {
    let workshop = Workshop::new();
    let circle = r#"
        name = "circle"
        description = "round"
        [from]
        template = "circle"
    "#;
    let all = recipes([("circle", circle)]);
    let unknown = workshop.build(&all, "nope").0;
    assert!(matches!(&unknown, Err(BuildError::UnknownTemplate(name)) if name == "nope"));
    let round = workshop.build(&all, "circle").0;
    assert!(matches!(&round, Err(BuildError::Circle(name)) if name == "circle"));
}
