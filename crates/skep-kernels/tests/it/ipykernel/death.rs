//! Ends of an ipykernel: by itself, by a signal, for want of memory.

use std::sync::atomic::Ordering;

use super::{until_said, world};
use crate::talk::{all, next};

#[tokio::test]
async fn a_death_is_told_once_and_the_next_execution_works() {
    let world = world();
    for (code, end) in [
        (
            "import os\nos._exit(3)",
            ["failed Died(Code(3))", "ended KernelDied"],
        ),
        (
            "import ctypes\nctypes.string_at(1)",
            ["failed Died(Signal(11))", "ended KernelDied"],
        ),
        (
            "import os\nos.kill(os.getpid(), 9)",
            ["failed Died(Signal(9))", "ended Killed"],
        ),
    ] {
        let words = world.run(code).await;
        assert_eq!(words[words.len() - 2..], end);
        let words = world.run("1").await;
        assert!(words[0].starts_with("lost Died"), "{words:?}");
        assert_eq!(words[1..], ["accepted 1", "value \"1\"", "ended Ok"]);
    }
}

#[tokio::test]
async fn what_was_printed_before_the_death_is_heard() {
    let world = world();
    let code = "import os, time\nfor n in range(1000): print(n)\nimport sys; sys.stdout.flush(); time.sleep(0.5)\nos._exit(3)";
    let words = world.run(code).await;
    let lines: Vec<&str> = words.iter().flat_map(|word| word.lines()).collect();
    assert_eq!(lines.len(), 1003, "{:?}", lines.last());
    assert_eq!(lines[1000], "999");
}

#[tokio::test]
async fn a_kill_for_want_of_memory_is_told_apart() {
    let world = world();
    let flag = world.directory.path().join("go on");
    let code = format!(
        "import os, time\nprint('go', flush=True)\nwhile not os.path.exists({flag:?}): time.sleep(0.01)\nos.kill(os.getpid(), 9)"
    );
    let mut execution = world.start(&code);
    until_said(&mut execution, "go").await;
    let kills = &world.children.out_of_memory_kills;
    kills.store(1, Ordering::SeqCst);
    std::fs::write(&flag, "").unwrap();
    assert_eq!(
        all(execution).await,
        ["failed Died(OutOfMemory)", "ended OutOfMemory"]
    );
}

#[tokio::test]
async fn a_kernel_that_is_asked_to_exit_ends_its_execution_well() {
    let world = world();
    assert_eq!(
        world.run("kept = 1\nexit()").await,
        ["accepted 1", "ended Ok"]
    );
    assert_eq!(
        world.run("kept").await,
        [
            "lost Exited",
            "accepted 1",
            "raised NameError",
            "ended Runtime"
        ]
    );
}

#[tokio::test]
async fn a_restart_ends_what_runs() {
    let world = world();
    let mut execution = world.start("import time\nprint('go', flush=True)\ntime.sleep(1000)");
    until_said(&mut execution, "go").await;
    world.contexts.restart(&world.python).await.unwrap();
    assert_eq!(
        next(&mut execution).await.as_deref(),
        Some("failed Restarted")
    );
    assert_eq!(
        world.run("1").await,
        ["accepted 1", "value \"1\"", "ended Ok"]
    );
}
