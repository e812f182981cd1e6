//! Attacks between the forked kernels of two teams.

use std::collections::BTreeMap;
use std::time::Duration;

use skep_client::{ClientError, ContextRef, RunOptions};

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
        client.sandbox(&first.id).kill().await.unwrap();
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
async fn run(target: &Target, code: &str) -> Result<String, ClientError> {
    let options = RunOptions {
        env: target.surroundings.clone(),
        ..RunOptions::default()
    };
    let interpreter = target.sandbox().interpreter(ContextRef::Language("python"));
    let running = async {
        let execution = interpreter.execute(code, &options).await?;
        Ok(execution.output().await?.stdout)
    };
    let ran = tokio::time::timeout(TIMEOUT, running).await;
    ran.expect("code ends in time")
}
