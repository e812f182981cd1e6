//! A kernel that nobody here has heard of: what is installed runs by its name.

use std::sync::Arc;
use std::time::Duration;

use skep_kernels::fake::FakeSettings;
use skep_kernels::{Contexts, ExecuteRequest, KernelSpecs};
use skep_testkit::wait_until;

use super::{USUAL_ENVIRONMENT, until_said};
use crate::processes::Children;
use crate::talk::{all, request, run};

/// Somebody else's kernel for a language without an encoder, with a `kernel.json` of its own.
pub(super) const PACKAGE: &str = "bash_kernel==0.10.0";

#[tokio::test]
async fn any_kernel_that_is_installed_runs_by_its_name() {
    let kernels = USUAL_ENVIRONMENT.join("share/jupyter/kernels");
    let installed = KernelSpecs::new(move || vec![kernels.clone()], Arc::new(Children::default()));
    let settings = Arc::new(FakeSettings::default());
    let contexts = Contexts::new(Arc::new(installed), settings, &[]);
    let bash = contexts.default_of("bash").unwrap();
    let words = run(&contexts, &bash, "kept=kept; echo $kept").await;
    assert_eq!(words, ["accepted 1", "kept", "ended Ok"]);
    // Such kernels have no name for a command that fails.
    let words = run(&contexts, &bash, "(exit 7)").await;
    assert_eq!(words[words.len() - 2..], ["raised ", "ended Runtime"]);

    // The word comes when the shell waits: this kernel may miss an interrupt while it reads a line.
    let mut execution = contexts
        .execute(&bash, request("(sleep 0.5; echo go) & sleep 1000"))
        .unwrap();
    until_said(&mut execution, "go").await;
    drop(execution);
    // On a busy host this kernel takes the interrupt for one of the next cell.
    wait_until(Duration::from_secs(60), async || {
        let words = run(&contexts, &bash, "echo $kept").await;
        let is_kept = words[words.len() - 2..] == ["kept", "ended Ok"];
        is_kept.then_some(()).ok_or_else(|| words.join("; "))
    })
    .await;

    // What cannot be said in its language is not silently left out.
    let with_variables = ExecuteRequest {
        variables: [("A".to_owned(), "a".to_owned())].into(),
        ..request("echo ${A-unset}")
    };
    let words = all(contexts.execute(&bash, with_variables).unwrap()).await;
    let untold = "[env_vars are not set: nobody knows how to tell that to a kernel for 'bash']";
    assert_eq!(words[0], untold);
    assert_eq!(words[words.len() - 2..], ["unset", "ended Ok"]);
    let other = contexts
        .create("bash", Some("/tmp".to_owned()))
        .await
        .unwrap();
    let words = run(&contexts, &other.id, "echo here").await;
    assert!(
        words[0].starts_with("[the directory of the context is not entered"),
        "{words:?}"
    );
}
