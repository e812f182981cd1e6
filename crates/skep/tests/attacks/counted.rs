//! Counts of the races on forks that are won where nothing holds them: figures of the page.

use skep_telemetry::Chain;
use skep_types::TemplateImage;

use crate::attack::Attack;
use crate::control::Weakened;
use crate::sentinels::Sentinels;
use crate::target::Verdict;

/// Runs of each race. Each has a control of its own: one that was won leaves a thief at the socket.
const RUNS: usize = 10;

/// Makes each race again and again without its wall, and says how many runs escaped.
pub(crate) async fn count(
    attacks: &[Attack],
    image: &TemplateImage,
    sentinels: &Sentinels,
) -> Result<String, String> {
    let mut counted = Vec::new();
    for attack in attacks.iter().filter(|attack| attack.control.is_race()) {
        let mut won = 0;
        for _ in 0..RUNS {
            let weakened = Weakened::new(&attack.control, image, sentinels)
                .await
                .map_err(|error| Chain(&error).to_string())?;
            let command = attack.control.command(&attack.source);
            let verdict = weakened.target.judge(&attack.user, &command).await;
            weakened.finish().await;
            won += usize::from(matches!(verdict, Verdict::Escaped(_)));
        }
        counted.push(format!("{} {won} of {RUNS}", attack.full_name()));
    }
    Ok(counted.join(", "))
}
