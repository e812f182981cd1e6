//! Results of the doctor on this host, on which sandboxes run.

use skep_native::{NativeConfig, probe};
use skep_types::{Check, CheckStatus};

use crate::bench::Bench;

crate::tests![
    a_machine_that_runs_sandboxes_lacks_nothing,
    a_launcher_that_does_not_work_is_told_with_a_cure,
];

async fn look(config: &NativeConfig) -> Vec<Check> {
    let config = config.clone();
    tokio::task::spawn_blocking(move || probe(&config))
        .await
        .unwrap()
}

async fn a_machine_that_runs_sandboxes_lacks_nothing() {
    let bench = Bench::new().await;
    let checks = look(&bench.config).await;
    let missing: Vec<_> = checks
        .iter()
        .filter(|check| check.status == CheckStatus::Missing)
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let launch = checks
        .iter()
        .find(|check| check.name == "a launch")
        .unwrap();
    assert_eq!(launch.status, CheckStatus::Good, "{launch:?}");
    // Looking leaves nothing behind.
    let left: Vec<_> = std::fs::read_dir(&bench.config.host.data_dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_str().unwrap().starts_with("probe"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    bench.finish().await;
}

async fn a_launcher_that_does_not_work_is_told_with_a_cure() {
    let directory = tempfile::tempdir().unwrap();
    let config = NativeConfig::new(directory.path(), "/bin/true");
    let checks = look(&config).await;
    let launch = checks
        .iter()
        .find(|check| check.name == "a launch")
        .unwrap();
    assert_eq!(launch.status, CheckStatus::Missing, "{launch:?}");
    assert!(launch.cure.is_some());
}
