//! Attacks between the forked kernels of two teams.

use std::collections::BTreeMap;
use std::time::Duration;

use skep_client::{ContextRef, InterpreterError, RunOptions};
use skep_wire::interpreter::AnswerLine;

use crate::attack::{Attack, helper};
use crate::product::{Product, Zygotes};
use crate::sentinels::Sentinels;
use crate::target::{Target, Verdict, read_verdict};

/// A zygote is warm, and code has run, within this time.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Verdicts of attacks in a kernel of one team while a kernel of another plays along.
pub(crate) async fn against(
    attacks: &[Attack],
    sentinels: &Sentinels,
    zygotes: Zygotes,
) -> BTreeMap<String, Verdict> {
    if attacks.is_empty() {
        return BTreeMap::new();
    }
    let product = Product::with_zygotes(zygotes);
    let teams = [product.client.clone(), product.add_team("accomplice")];
    let mut targets = Vec::new();
    for (client, count) in teams.iter().zip(zygotes.counts()) {
        // The first sandbox of a team asks for its zygote.
        let first = product.create_for(client, sentinels).await;
        product.wait_for_zygotes(count).await;
        targets.push(product.create_for(client, sentinels).await);
        client.delete(&["sandboxes", &first.id]).await.unwrap();
    }
    let [attacker, accomplice] = &targets[..] else {
        unreachable!("there are two teams");
    };
    let locked = run(accomplice, &helper("hold_lock.py")).await.unwrap();
    assert_eq!(locked.trim(), "locked");
    let mut verdicts = BTreeMap::new();
    for attack in attacks {
        let verdict = match run(attacker, &attack.source).await {
            Ok(said) => read_verdict(&said),
            Err(error) => Verdict::Unclear(skep_telemetry::Chain(&error).to_string()),
        };
        verdicts.insert(attack.full_name(), verdict);
    }
    let forked = product.counted("skep_zygote_kernels_total{outcome=\"forked\"}");
    assert!(forked.await >= 2, "the kernels were started, not forked");
    product.finish().await;
    verdicts
}

/// Output of code in the kernel of a sandbox.
async fn run(target: &Target, code: &str) -> Result<String, InterpreterError> {
    let interpreter = target.client.interpreter(&target.id, Some(&target.token));
    let running = async {
        let options = RunOptions {
            env: target.surroundings.clone(),
            ..RunOptions::default()
        };
        let place = ContextRef::Language("python");
        let mut execution = interpreter.execute(code, place, &options).await?;
        let mut said = String::new();
        while let Some(line) = execution.next().await? {
            if let AnswerLine::Stdout { text, .. } = line {
                said.push_str(&text);
            }
        }
        Ok(said)
    };
    let ran = tokio::time::timeout(TIMEOUT, running).await;
    ran.expect("code ends in time")
}
