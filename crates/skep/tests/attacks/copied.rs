//! Copies of contexts: what a kernel offers as a copy of itself.
//!
//! A kernel is user code. Whatever it offers is taken over only if the host's kernel says that it is an orphan of this very kernel: of
//! the same user, in its cgroup, known to nobody. The control is one that is all of that, made by the attack itself: it is taken
//! over, so the others were refused for who they are.

use std::time::Duration;

use skep_client::{AnswerLine, ContextOptions, ContextRef, RunOptions};

use crate::product::Product;
use crate::sentinels::Sentinels;
use crate::target::Target;

const OFFER: &str = include_str!("copies/offer.py");
const TIMEOUT: Duration = Duration::from_secs(60);

/// Offers processes that are no copies, then one that is.
pub(crate) async fn impostors(product: &Product, sentinels: &Sentinels) -> Result<String, String> {
    let target = product.create(sentinels).await;
    let contexts = target.sandbox().contexts();
    let options = ContextOptions::default();
    let create = || contexts.create("python", None, &options);
    let (attacker, other) = (create().await.unwrap().id, create().await.unwrap().id);
    run(&target, &attacker, OFFER).await?;
    run(&target, &other, OFFER).await?;
    run(&target, &other, "wait_for_a_descriptor()").await?;
    wait_for_file(&target, "stranger").await;
    let mut refused = Vec::new();
    for name in ["itself", "child", "root", "stranger"] {
        run(&target, &attacker, &format!("offer('{name}')")).await?;
        let before = group_of(&target, name).await;
        let taken = contexts.checkpoint(&attacker).await;
        wait_for_file(&target, name).await;
        let after = group_of(&target, name).await;
        if taken.is_ok() {
            return Err(format!("{name} was taken for a copy"));
        }
        // What was there before is where it was, and lives.
        if after.is_none() || before.is_some_and(|before| Some(before) != after) {
            return Err(format!("{name} is in {after:?} after a refusal"));
        }
        refused.push(name);
    }
    run(&target, &attacker, "offer('own')").await?;
    let control = contexts.checkpoint(&attacker).await;
    let own = group_of(&target, "own").await;
    let attackers = group_of(&target, "itself").await;
    if control.is_err() || own.is_none() || own == attackers {
        return Err(format!("a true orphan is refused: {control:?}, in {own:?}"));
    }
    contexts.remove(&attacker).await.unwrap();
    skep_testkit::wait_until(TIMEOUT, async || match group_of(&target, "own").await {
        None => Ok(()),
        group => Err(format!("it outlives its context, in {group:?}")),
    })
    .await;
    product.kill(&target).await;
    Ok(format!(
        "{} were refused and stay where they are; an orphan was taken over and ended with its context",
        refused.join(", ")
    ))
}

/// Runs code in a context, which must succeed.
async fn run(target: &Target, context: &str, code: &str) -> Result<(), String> {
    let options = RunOptions::default();
    let sandbox = target.sandbox();
    let begun = sandbox.interpreter(ContextRef::Id(context));
    let mut execution = begun.execute(code, &options).await.unwrap();
    while let Some(line) = execution.next().await.unwrap() {
        if let AnswerLine::Error(error) = line {
            return Err(format!("{}: {}", error.name, error.value));
        }
    }
    Ok(())
}

/// The cgroup of a process that has noted its number, if it lives.
async fn group_of(target: &Target, name: &str) -> Option<String> {
    let script = format!(
        "pid=$(cat /tmp/{name} 2>/dev/null) && grep memory /proc/$pid/cgroup 2>/dev/null || true"
    );
    let group = target.shell(&script).await.trim().to_owned();
    (!group.is_empty()).then_some(group)
}

async fn wait_for_file(target: &Target, name: &str) {
    skep_testkit::wait_until(TIMEOUT, async || {
        let there = format!("test -s /tmp/{name} && echo there || true");
        match target.shell(&there).await.trim() {
            "there" => Ok(()),
            _ => Err(format!("/tmp/{name} is not there")),
        }
    })
    .await;
}
