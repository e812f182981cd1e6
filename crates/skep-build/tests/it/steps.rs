//! Steps and what they say when they fail.

use skep_build::fake::Answer;
use skep_types::{BuildPhase, Instruction, LayerKey, TeamId, TemplateStart, VersionCopy};

use crate::{Host, env, order, run};

/// The message of a build that fails at its second step.
async fn failure(host: &Host, step: Instruction) -> String {
    let steps = vec![env("FIRST", "1"), step];
    let (log, end) = host.build(order(&TeamId::random(), steps)).await;
    let failure = end.unwrap_err();
    assert_eq!(failure.phase, Some(BuildPhase::Step(2)), "{failure}");
    assert_eq!(log.last().unwrap(), &format!("Build failed: {failure}"));
    assert_eq!(host.sandboxes.open_count(), 0);
    failure.message
}

#[tokio::test]
async fn a_command_that_fails_is_named_with_its_end() {
    let host = Host::new();
    host.sandboxes.answer("false", Answer::Exit(1, ""));
    assert_eq!(
        failure(&host, run("false")).await,
        "failed to run command 'false': exit status 1"
    );
    let refused = Answer::Refuse("unauthenticated", "invalid username: 'root123'");
    host.sandboxes.answer("whoami", refused);
    assert_eq!(
        failure(&host, run("whoami")).await,
        "failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'"
    );
}

#[tokio::test]
async fn a_user_that_is_a_command_never_reaches_a_sandbox() {
    let host = Host::new();
    let user = Instruction::User {
        name: "; exit 1".to_owned(),
        administrator: false,
    };
    let message = failure(&host, user).await;
    assert!(
        message.starts_with("failed to set the user '; exit 1'"),
        "{message}"
    );
    assert_eq!(host.sandboxes.events(), [""; 0]);
}

#[tokio::test]
async fn a_user_given_by_number_is_the_account_of_that_number() {
    let host = Host::new();
    let user = |name: &str| Instruction::User {
        name: name.to_owned(),
        administrator: false,
    };
    host.sandboxes.answer("1000", Answer::Exit(0, "node\n"));
    let made = "useradd: warning: the home directory is there\nu4321\n";
    host.sandboxes.answer("4321", Answer::Exit(10, made));
    for (given, name) in [("1000:1000", "node"), ("4321", "u4321")] {
        let steps = vec![env("A", "1"), user(given), run("make")];
        let (_, end) = host.build(order(&TeamId::random(), steps)).await;
        assert_eq!(end.unwrap().image.user, name);
        assert_eq!(host.sandboxes.commands().pop().unwrap().user, name);
    }
    assert_eq!(
        failure(&host, user("100000")).await,
        "failed to set the user '100000': the numbers of users in a sandbox end at 65535"
    );
}

#[tokio::test]
async fn files_that_were_not_uploaded_are_named() {
    let host = Host::new();
    let copy = || Instruction::Copy {
        source: "d".to_owned(),
        destination: "/d".to_owned(),
        owner: None,
        mode: None,
        files: "ab".repeat(32).parse().unwrap(),
    };
    let message = failure(&host, copy()).await;
    assert!(
        message.ends_with("of this step were not uploaded"),
        "{message}"
    );
    host.archives
        .add("ab".repeat(32).parse().unwrap(), b"no archive".to_vec());
    assert_eq!(
        failure(&host, copy()).await,
        "the uploaded archive is damaged"
    );
}

#[tokio::test]
async fn commands_see_the_variables_user_and_directory_of_the_steps_before() {
    let host = Host::new();
    let steps = vec![
        env("A", "1"),
        env("B", "$A:${X:-d}"),
        env("PATH", "/mine:$PATH"),
        Instruction::WorkDirectory("app/../lib".to_owned()),
        Instruction::User {
            name: "www-data:staff".to_owned(),
            administrator: false,
        },
        run("make"),
    ];
    let (_, end) = host.build(order(&TeamId::random(), steps)).await;
    let command = host.sandboxes.commands().pop().unwrap();
    assert_eq!(command.arguments, ["/bin/bash", "-l", "-c", "make"]);
    assert_eq!(command.user, "www-data");
    assert_eq!(command.directory.as_deref(), Some("/lib"));
    assert_eq!(command.environment["B"], "1:d");
    assert!(command.environment["PATH"].starts_with("/mine:/usr/local/sbin:"));
    let built = end.unwrap();
    assert_eq!(built.image.user, "www-data");
    assert_eq!(built.image.workdir.as_deref(), Some("/lib"));
    // Neither the directory nor the user was new, so only the command has left a layer, and the path,
    // which login shells have to be told of.
    assert_eq!(built.image.layers.len(), 3);
    let events = host.sandboxes.events();
    let opened = events.iter().filter(|event| event.starts_with("open"));
    assert_eq!(opened.count(), 2);
    let told = format!("run {}", command.environment["PATH"]);
    assert!(events.contains(&told), "{events:?}");
}

#[tokio::test]
async fn a_start_command_is_tried_and_kept() {
    let host = Host::new();
    host.sandboxes.answer("serve", Answer::Hang);
    let mut wanted = order(&TeamId::random(), vec![run("make")]);
    wanted.start_command = Some("serve".to_owned());
    wanted.ready_command = Some("true".to_owned());
    let (log, end) = host.build(wanted.clone()).await;
    assert_eq!(
        log[4..7],
        [
            "Running start command: serve",
            "Waiting for template to be ready: true",
            "Template is ready",
        ]
    );
    let start = end.unwrap().image.start.unwrap();
    assert_eq!(start.command.as_deref(), Some("serve"));
    // `wait_for_timeout(180_000)` is one command that takes three minutes.
    let ready = host.sandboxes.commands().pop().unwrap();
    assert_eq!(ready.arguments.last().unwrap(), "true");
    assert!(ready.timeout > TemplateStart::READY_WITHIN / 2, "{ready:?}");
    host.sandboxes.answer("serve", Answer::Exit(3, ""));
    let (_, end) = host.build(wanted).await;
    let failure = end.unwrap_err();
    assert_eq!(failure.phase, Some(BuildPhase::Finalize));
    assert_eq!(
        failure.message,
        "start command failed: error running start command: exit status 3"
    );
}

#[tokio::test]
async fn a_start_command_at_the_interpreters_port_is_told_why_it_fails() {
    let host = Host::new();
    let serve = "serve --port 49999";
    host.sandboxes.answer(serve, Answer::Exit(1, ""));
    let mut order = order(&TeamId::random(), vec![env("A", "1")]);
    order.start_command = Some(serve.to_owned());
    let (log, end) = host.build(order).await;
    let failure = end.unwrap_err();
    assert!(
        failure.message.starts_with(
            "start command failed: error running start command: exit status 1 (port 49999 is the interpreter's"
        ),
        "{failure}"
    );
    assert!(log.iter().any(|line| line.starts_with("Port 49999 is")));
}

#[tokio::test]
async fn a_template_that_waits_for_an_interpreter_has_ours_if_its_own_does_not_start() {
    let host = Host::new();
    host.sandboxes.answer("bring-up", Answer::Exit(1, ""));
    let ready = "curl http://localhost:49999/health";
    let mut wanted = order(&TeamId::random(), vec![env("A", "1")]);
    wanted.start_command = Some("bring-up".to_owned());
    wanted.ready_command = Some(ready.to_owned());
    let (log, end) = host.build(wanted).await;
    let start = end.unwrap().image.start.unwrap();
    assert_eq!((start.command, start.ready.as_deref()), (None, Some(ready)));
    let says = "The template has no start command: start command failed: error running start command: exit status 1";
    assert!(log.iter().any(|line| line.starts_with(says)), "{log:?}");
    assert!(log.contains(&"Template is ready".to_owned()), "{log:?}");
}

#[tokio::test]
async fn pip_installs_by_uv_if_downloads_are_kept_and_by_itself_if_uv_cannot() {
    let host = Host::new();
    let ran = async |text: &str, steps: Vec<Instruction>| {
        let before = host.sandboxes.commands().len();
        let (_, end) = host.build(order(&TeamId::random(), steps)).await;
        end.unwrap();
        let commands = host.sandboxes.commands().split_off(before);
        let installs = commands.into_iter().filter_map(|mut command| {
            let last = command.arguments.pop().unwrap();
            [text, "six"].contains(&last.as_str()).then_some(last)
        });
        installs.collect::<Vec<_>>()
    };
    let text = "pip install six";
    let kept = || vec![env("UV_CACHE_DIR", "/kept"), run(text)];
    assert_eq!(ran(text, vec![run(text)]).await, [text]);
    assert_eq!(ran(text, kept()).await, ["six"]);
    host.sandboxes.answer("six", Answer::Exit(21, ""));
    assert_eq!(ran(text, kept()).await, ["six", text]);
    host.sandboxes
        .answer("six", Answer::Exit(1, "no such version"));
    assert_eq!(ran(text, kept()).await, ["six", text]);
}

/// An archive as a sandbox would print it.
fn printed_archive(name: &str, content: &str) -> &'static str {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o755);
    header.set_uid(33);
    archive
        .append_data(&mut header, name, content.as_bytes())
        .unwrap();
    let text = String::from_utf8(archive.into_inner().unwrap()).unwrap();
    Box::leak(text.into_boxed_str())
}

fn copy_from(sources: &[&str], destination: &str) -> Instruction {
    Instruction::CopyFrom {
        layers: vec![LayerKey::from([7; 32]), LayerKey::from([8; 32])],
        copy: VersionCopy {
            sources: sources.iter().map(|&source| source.to_owned()).collect(),
            destination: destination.to_owned(),
            owner: None,
            mode: None,
        },
    }
}

#[tokio::test]
async fn files_of_another_version_are_packed_in_a_sandbox_of_it() {
    let host = Host::new();
    let found = Answer::Exit(0, "file\0/out/app\0/out/app-1\0");
    host.sandboxes.answer("/out/a*", found);
    let archive = printed_archive("app-1", "binary");
    host.sandboxes.answer("app-1", Answer::Exit(0, archive));
    let steps = vec![copy_from(&["out/a*"], "/bin/")];
    let (_, end) = host.build(order(&TeamId::random(), steps)).await;
    assert_eq!(end.unwrap().image.layers.len(), 2);
    let events: Vec<_> = host.sandboxes.events();
    assert_eq!(events[0], "open 2", "{events:?}");
    let closed = events.iter().position(|event| event == "close").unwrap();
    assert_eq!(events[closed + 1], "open 1", "{events:?}");
    assert!(
        events.contains(&"write /.skep-copy".to_owned()),
        "{events:?}"
    );
    assert_eq!(host.sandboxes.open_count(), 0);
}

#[tokio::test]
async fn a_file_that_another_version_does_not_have_is_named() {
    let host = Host::new();
    host.sandboxes.answer("/none", Answer::Exit(20, ""));
    let message = failure(&host, copy_from(&["/none"], "/bin/")).await;
    assert!(message.starts_with("there is no"), "{message}");
    let two = Answer::Exit(0, "file\0/a\0/a\0file\0/b\0/b\0");
    host.sandboxes.answer("/two", two);
    let message = failure(&host, copy_from(&["/two"], "/bin")).await;
    assert!(message.starts_with("several sources"), "{message}");
}
